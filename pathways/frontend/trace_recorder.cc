#include "pathways/frontend/trace_recorder.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace pw::frontend {

void TraceRecorder::OnRequest(uint64_t op_id, absl::string_view name) {
  if (spans_.size() >= kMaxSpans) {
    ++dropped_;
    return;
  }
  open_[op_id] = spans_.size();
  spans_.push_back({name, op_id, NowUs(), -1});
}

void TraceRecorder::OnAnswer(uint64_t op_id) {
  auto it = open_.find(op_id);
  if (it == open_.end()) return;
  spans_[it->second].end_us = NowUs();
  open_.erase(it);
}

std::string TraceRecorder::Json(const std::string& process) const {
  const int64_t now = NowUs();
  std::string json =
      absl::StrCat(R"({"displayTimeUnit": "ms", "otherData": {"requests_not_recorded": )", dropped_, R"(}, "traceEvents": [)",
                   "\n", R"({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": ")",
                   absl::StrReplaceAll(process, {{"\\", "\\\\"}, {"\"", "\\\""}}), R"("}})");
  for (const Span& span : spans_) {
    const int64_t end = span.end_us < 0 ? now : span.end_us;
    // Spans overlap: each is an asynchronous event of its own.
    for (const auto& [phase, at] : {std::pair{'b', span.start_us}, std::pair{'e', end}}) {
      absl::StrAppend(&json, ",\n", R"({"ph": ")", std::string(1, phase), R"(", "cat": "request", "pid": 1, "tid": 1, "id": )",
                      span.op_id, R"(, "name": ")", span.name, R"(", "ts": )", at, "}");
    }
  }
  return json + "\n]}\n";
}

}  // namespace pw::frontend
