// y = f(y), many times without waiting.
#include <algorithm>
#include <vector>

#include "pathways/sim/workloads.h"

namespace pw::sim {
namespace {

class Chain final : public Workload {
 public:
  Chain(const WorkloadContext& context, const WorkloadSpec& spec)
      : Workload(context, spec), length_(Number("length", 32)), repeats_(Number("repeat", 4)) {}

 private:
  void Go() override {
    std::vector<int32_t> devices;
    const size_t count = std::min(static_cast<size_t>(Number("hosts", 1)), hosts().size());
    for (size_t h = 0; h < count; ++h) {
      const std::vector<int32_t>& more = hosts()[(static_cast<size_t>(number()) + h) % hosts().size()];
      devices.insert(devices.end(), more.begin(), more.end());
    }
    tenant().Compile(devices, 1, static_cast<int>(Number("us", 20)), [this](Executable f) {
      f_ = std::move(f);
      if (!f_.usable) return Finish();
      Once();
    });
  }
  void Once() {
    if (repeats_-- == 0) return Finish();
    std::vector<Value> all = {tenant().Make(f_.devices, {0, 1, 2, static_cast<float>(number())})};
    for (int64_t i = 0; i < length_; ++i) all.push_back(tenant().Run(f_, {all.back()}));
    const Value last = all.back();
    all.pop_back();
    tenant().Drop(all);
    tenant().Read(last, [this, last] {
      tenant().Drop({last});
      Once();
    });
  }

  const int64_t length_;
  int64_t repeats_;
  Executable f_;
};

}  // namespace

std::unique_ptr<Workload> MakeChain(const WorkloadContext& context, const WorkloadSpec& spec) {
  return std::make_unique<Chain>(context, spec);
}

}  // namespace pw::sim
