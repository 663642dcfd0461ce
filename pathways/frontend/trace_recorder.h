// TraceRecorder: records a session's requests and their durations, for a profile that the client takes. Strand-confined.
//
// A span lasts from the start of a request to its answer. So a span of check_value_ready shows the client's wait for its arrays.
// After kMaxSpans spans nothing more is recorded, and the trace says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"

namespace pw::frontend {

class TraceRecorder {
 public:
  static constexpr size_t kMaxSpans = 1000000;

  explicit TraceRecorder(Clock* clock) : clock_(clock), start_(clock->Now()) {}

  // `name` is a constant.
  void OnRequest(uint64_t op_id, absl::string_view name);
  void OnAnswer(uint64_t op_id);

  // Returns the trace in Chrome's event format, for TensorBoard and Perfetto. Unanswered requests end now.
  std::string Json(const std::string& process) const;

 private:
  struct Span {
    absl::string_view name;
    uint64_t op_id;
    int64_t start_us;
    int64_t end_us;  // -1: not answered yet
  };
  int64_t NowUs() const { return absl::ToInt64Microseconds(clock_->Now() - start_); }

  Clock* const clock_;
  const absl::Time start_;
  std::vector<Span> spans_;
  absl::flat_hash_map<uint64_t, size_t> open_;  // by op_id
  uint64_t dropped_ = 0;
};

}  // namespace pw::frontend
