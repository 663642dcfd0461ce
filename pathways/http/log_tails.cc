#include "pathways/http/log_tails.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/json_writer.h"
#include "pathways/net/sockets/socket.h"

namespace pw::http {
namespace {

constexpr char kSuffix[] = ".log";
constexpr absl::string_view kLevels = "DIWE";

// Returns the level of a line of ours, "I 12:01:33.412 worker/...", or 0.
char LevelOf(absl::string_view line) {
  const bool ours = line.size() > 15 && line[1] == ' ' && line[4] == ':' && line[7] == ':' && line[10] == '.' && line[14] == ' ';
  return ours && kLevels.find(line[0]) != absl::string_view::npos ? line[0] : 0;
}

size_t Rank(char level) { return kLevels.find(level); }

// Decodes %XX and '+'.
std::string Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t code = 0;
    if (text[i] == '%' && i + 2 < text.size() && absl::SimpleHexAtoi(text.substr(i + 1, 2), &code)) {
      decoded += static_cast<char>(code);
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Returns the names of the logs in the folder, in order.
std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  const int copy = dup(folder);
  DIR* listing = copy < 0 ? nullptr : fdopendir(copy);
  if (listing == nullptr) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(listing)) {
    absl::string_view name = entry->d_name;
    if (absl::ConsumeSuffix(&name, kSuffix) && !name.empty()) names.emplace_back(name);
  }
  closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

struct Tail {
  std::string text;
  bool cut = false;  // the file has more before it
};

std::optional<Tail> Read(int folder, const std::string& name) {
  const net::Fd file(openat(folder, absl::StrCat(name, kSuffix).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about{};
  if (!file.valid() || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const off_t from = std::max<off_t>(0, about.st_size - static_cast<off_t>(LogTails::kTailBytes));
  Tail tail;
  tail.cut = from > 0;
  tail.text.resize(LogTails::kTailBytes);
  size_t got = 0;
  while (got < tail.text.size()) {
    const ssize_t n = pread(file.get(), tail.text.data() + got, tail.text.size() - got, from + static_cast<off_t>(got));
    if (n <= 0) break;
    got += static_cast<size_t>(n);
  }
  tail.text.resize(got);
  if (tail.cut) tail.text.erase(0, tail.text.find('\n') + 1);  // the first line is not whole
  return tail;
}

bool IsWanted(const LoggedLine& line, const LogQuery& query) {
  return Rank(line.level) >= Rank(query.level) &&
         (query.text.empty() || absl::StrContains(absl::AsciiStrToLower(line.text), query.text));
}

void Write(const std::string& name, const Tail& tail, const LogQuery& query, JsonWriter* json) {
  std::vector<LoggedLine> wanted;
  for (LoggedLine& line : LinesOf(tail.text)) {
    if (IsWanted(line, query)) wanted.push_back(std::move(line));
  }
  const size_t first = wanted.size() - std::min(wanted.size(), query.lines);
  json->BeginObject().Key("name").String(name).Key("cut").Bool(tail.cut || first > 0).Key("lines").BeginArray();
  for (size_t i = first; i < wanted.size(); ++i)
    json->BeginArray().String(std::string(1, wanted[i].level)).String(wanted[i].text).EndArray();
  json->EndArray().EndObject();
}

}  // namespace

std::vector<LoggedLine> LinesOf(absl::string_view text) {
  std::vector<LoggedLine> lines;
  char level = 'I';
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    if (line.empty() && text.empty()) break;
    if (const char own = LevelOf(line); own != 0) level = own;
    lines.push_back({level, std::string(line)});
  }
  return lines;
}

LogQuery ReadLogQuery(absl::string_view query) {
  LogQuery wanted;
  for (absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string value = Decoded(field.second);
    size_t lines = 0;
    if (field.first == "level" && value.size() == 1 && Rank(value[0]) != absl::string_view::npos) wanted.level = value[0];
    if (field.first == "text") wanted.text = absl::AsciiStrToLower(value);
    if (field.first == "process") wanted.process = value;
    if (field.first == "lines" && absl::SimpleAtoi(value, &lines)) wanted.lines = std::min(lines, LogTails::kMostLines);
  }
  return wanted;
}

std::string LogTails::Answer(const LogQuery& query) const {
  const net::Fd folder(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::vector<std::string> names = folder.valid() ? NamesIn(folder.get()) : std::vector<std::string>();
  JsonWriter json;
  json.BeginObject().Key("names").BeginArray();
  for (const std::string& name : names) json.String(name);
  json.EndArray().Key("processes").BeginArray();
  size_t files = 0;
  for (const std::string& name : names) {
    if (!query.process.empty() && name != query.process) continue;
    if (++files > kMostFiles) break;
    if (const std::optional<Tail> tail = Read(folder.get(), name)) Write(name, *tail, query, &json);
  }
  return json.EndArray().EndObject().Take();
}

}  // namespace pw::http
