#include "pathways/storage/s3_answers.h"

#include <algorithm>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"

namespace pw::storage {
namespace {

constexpr size_t kMostDepth = 16;
constexpr size_t kMostObjects = 10'000;  // of a page; S3 sends 1000

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("its list of objects ", what)); }

// Replaces the five entities of XML, and characters given by number below 128.
absl::StatusOr<std::string> Unescape(absl::string_view text) {
  constexpr std::pair<absl::string_view, char> kEntities[] = {
      {"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
  std::string out;
  while (!text.empty()) {
    if (!absl::ConsumePrefix(&text, "&")) {
      out.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    const auto* const found = std::find_if(std::begin(kEntities), std::end(kEntities),
                                           [&](const auto& entity) { return absl::StartsWith(text, entity.first); });
    if (found != std::end(kEntities)) {
      out.push_back(found->second);
      text.remove_prefix(found->first.size());
      continue;
    }
    const size_t end = text.find(';');
    uint32_t number = 0;
    const bool hex = absl::StartsWith(text, "#x"),
               known = end != absl::string_view::npos && end <= 8 && absl::StartsWith(text, "#");
    const absl::string_view digits = known ? text.substr(hex ? 2 : 1, end - (hex ? 2 : 1)) : "";
    if (!(hex ? absl::SimpleHexAtoi(digits, &number) : absl::SimpleAtoi(digits, &number)) || number == 0 || number > 127)
      return Bad("has a character that is written in an unknown way");
    out.push_back(static_cast<char>(number));
    text.remove_prefix(end + 1);
  }
  return out;
}

absl::StatusOr<std::string> UriDecode(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text[0] != '%') {
      out.push_back(text[0] == '+' ? ' ' : text[0]);
      text.remove_prefix(1);
      continue;
    }
    uint32_t number = 0;
    const bool digits = text.size() >= 3 && absl::ascii_isxdigit(text[1]) && absl::ascii_isxdigit(text[2]);
    if (!digits || !absl::SimpleHexAtoi(text.substr(1, 2), &number)) return Bad("has a key that is encoded in an unknown way");
    out.push_back(static_cast<char>(number));
    text.remove_prefix(3);
  }
  return out;
}

// Reads elements and the texts of those that have no others in them. Knows no document types, and so no entities of a document's own.
class XmlReader {
 public:
  // Called at the end of each element, with the names from the outermost on, such as "ListBucketResult/Contents/Key".
  using OnElement = std::function<absl::Status(const std::string& path, absl::string_view text)>;

  explicit XmlReader(OnElement on_element) : on_element_(std::move(on_element)) {}

  absl::Status Read(absl::string_view xml) {
    while (!xml.empty()) {
      const size_t open = xml.find('<');
      text_ = xml.substr(0, open);
      if (open == absl::string_view::npos) break;
      const size_t close = xml.find('>', open);
      if (close == absl::string_view::npos) return Bad("is cut off");
      PW_RETURN_IF_ERROR(Tag(xml.substr(open + 1, close - open - 1)));
      xml.remove_prefix(close + 1);
    }
    return lengths_.empty() && elements_ > 0 ? absl::OkStatus() : Bad("is cut off");
  }

 private:
  absl::Status Tag(absl::string_view tag) {
    if (absl::StartsWith(tag, "?") && absl::EndsWith(tag, "?")) return absl::OkStatus();  // <?xml version="1.0"?>
    if (absl::StartsWith(tag, "!")) return Bad("has a document type");
    if (absl::ConsumePrefix(&tag, "/")) return End(absl::StripTrailingAsciiWhitespace(tag));
    const bool empty = absl::ConsumeSuffix(&tag, "/");
    const absl::string_view name = tag.substr(0, tag.find_first_of(" \t\r\n"));
    PW_RETURN_IF_ERROR(Begin(name));
    text_ = "";
    return empty ? End(name) : absl::OkStatus();
  }
  absl::Status Begin(absl::string_view name) {
    const bool sound = !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(c) || c == ':' || c == '-' || c == '_' || c == '.';
    });
    if (!sound || lengths_.size() == kMostDepth || (lengths_.empty() && elements_ > 0)) return Bad("has a tag that is none");
    ++elements_;
    lengths_.push_back(path_.size());
    absl::StrAppend(&path_, path_.empty() ? "" : "/", name);
    has_others_ = false;
    return absl::OkStatus();
  }
  absl::Status End(absl::string_view name) {
    if (lengths_.empty()) return Bad("has an end without a beginning");
    const absl::string_view own = absl::string_view(path_).substr(lengths_.back() == 0 ? 0 : lengths_.back() + 1);
    if (own != name) return Bad("has tags that do not fit each other");
    PW_RETURN_IF_ERROR(on_element_(path_, has_others_ ? "" : text_));
    path_.resize(lengths_.back());
    lengths_.pop_back();
    has_others_ = true;
    return absl::OkStatus();
  }

  const OnElement on_element_;
  std::string path_;
  std::vector<size_t> lengths_;  // of the path, before each open element
  size_t elements_ = 0;
  bool has_others_ = false;
  absl::string_view text_;
};

std::string Printable(absl::string_view text) {
  std::string out(text.substr(0, 200));
  std::replace_if(out.begin(), out.end(), [](char c) { return !absl::ascii_isprint(static_cast<unsigned char>(c)); }, '?');
  return out;
}

struct Parts {
  S3Page page;
  std::string key, truncated;
  int64_t bytes = -1;
};

absl::Status OnPart(Parts* parts, const std::string& path, absl::string_view text) {
  if (path == "ListBucketResult/Contents/Key") {
    PW_ASSIGN_OR_RETURN(const std::string encoded, Unescape(text));
    PW_ASSIGN_OR_RETURN(parts->key, UriDecode(encoded));
  } else if (path == "ListBucketResult/Contents/Size") {
    if (!absl::SimpleAtoi(text, &parts->bytes) || parts->bytes < 0) return Bad("has an object without a size");
  } else if (path == "ListBucketResult/Contents") {
    if (parts->key.empty() || parts->bytes < 0) return Bad("has an object without a name or a size");
    if (parts->page.objects.size() == kMostObjects) return Bad("is longer than was asked for");
    parts->page.objects.emplace_back(std::exchange(parts->key, ""), std::exchange(parts->bytes, -1));
  } else if (path == "ListBucketResult/IsTruncated") {
    parts->truncated = std::string(text);
  } else if (path == "ListBucketResult/NextContinuationToken") {
    PW_ASSIGN_OR_RETURN(parts->page.next, Unescape(text));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<S3Page> ParseS3Page(absl::string_view xml) {
  Parts parts;
  bool is_list = false;
  XmlReader reader([&](const std::string& path, absl::string_view text) {
    is_list = is_list || path == "ListBucketResult";
    return OnPart(&parts, path, text);
  });
  PW_RETURN_IF_ERROR(reader.Read(xml));
  if (!is_list || (parts.truncated != "true" && parts.truncated != "false")) return Bad("is none");
  if ((parts.truncated == "true") == parts.page.next.empty()) return Bad("does not say how it goes on");
  return std::move(parts.page);
}

S3Error ParseS3Error(absl::string_view xml) {
  S3Error error;
  XmlReader reader([&](const std::string& path, absl::string_view text) {
    if (path == "Error/Code") error.code = Printable(text);
    if (path == "Error/Message") error.message = Printable(Unescape(text).value_or(""));
    return absl::OkStatus();
  });
  return reader.Read(xml).ok() ? error : S3Error();
}

}  // namespace pw::storage
