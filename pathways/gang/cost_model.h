// CostModel: predicts the duration of a gang: a moving average of its executable's measured times. Island schedulers charge grants
// with it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "pathways/base/ids.h"

namespace pw::gang {

class CostModel {
 public:
  explicit CostModel(int64_t default_ns) : default_ns_(default_ns) {}

  int64_t Predict(ExecutableId executable) const {
    auto it = averages_.find(executable);
    return it == averages_.end() ? default_ns_ : it->second;
  }
  bool Knows(ExecutableId executable) const { return averages_.contains(executable); }
  void Observe(ExecutableId executable, int64_t measured_ns) {
    measured_ns = std::max<int64_t>(measured_ns, 0);
    auto [it, first] = averages_.try_emplace(executable, measured_ns);
    if (!first) it->second += (measured_ns - it->second) / 8;
  }
  void Forget(ExecutableId executable) { averages_.erase(executable); }

 private:
  const int64_t default_ns_;
  absl::flat_hash_map<ExecutableId, int64_t> averages_;
};

}  // namespace pw::gang
