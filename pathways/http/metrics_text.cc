#include "pathways/http/metrics_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/utf8.h"

namespace pw::http {
namespace {

bool IsName(absl::string_view text) {
  return !text.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

void AppendLabelValue(std::string_view value, std::string* out) {
  while (!value.empty()) {
    const char c = value[0];
    size_t length = 1;
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (length = Utf8Length(value); length > 0) {
      *out += value.substr(0, length);
    } else {
      *out += "\xEF\xBF\xBD";  // U+FFFD
      length = 1;
    }
    value.remove_prefix(length);
  }
}

// Returns the shortest of some forms that reads back as the same number.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  for (const int digits : {6, 15, 17}) {
    std::snprintf(text, sizeof(text), "%.*g", digits, value);
    if (std::strtod(text, nullptr) == value) break;
  }
  return text;
}

}  // namespace

MetricsText& MetricsText::Counter(absl::string_view name, absl::string_view help) {
  PW_CHECK(absl::EndsWith(name, "_total"));
  return Family(name, help, "counter");
}

MetricsText& MetricsText::Family(absl::string_view name, absl::string_view help, absl::string_view type) {
  PW_CHECK(IsName(name) && !absl::StrContains(help, "\n") && !absl::StrContains(help, "\\"));
  PW_CHECK(names_.insert(std::string(name)).second);
  name_ = std::string(name);
  absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  return *this;
}

MetricsText& MetricsText::Value(const Labels& labels, double value) {
  text_ += name_;
  for (size_t i = 0; i < labels.size(); ++i) {
    PW_CHECK(IsName(labels[i].first));
    absl::StrAppend(&text_, i == 0 ? "{" : ",", labels[i].first, "=\"");
    AppendLabelValue(labels[i].second, &text_);
    text_ += '"';
  }
  absl::StrAppend(&text_, labels.empty() ? " " : "} ", NumberText(value), "\n");
  return *this;
}

}  // namespace pw::http
