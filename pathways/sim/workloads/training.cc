// Up to four replicas, each on one host, on different islands if possible. The gradient of each is copied to all others, and each
// sums all gradients.
#include <algorithm>
#include <map>
#include <utility>

#include "pathways/sim/workloads.h"

namespace pw::sim {
namespace {

constexpr size_t kMaxReplicas = 4;

class Training final : public Workload {
 public:
  Training(const WorkloadContext& context, const WorkloadSpec& spec) : Workload(context, spec), steps_(Number("steps", 8)) {}

 private:
  struct Replica {
    std::vector<int32_t> devices;
    Executable gradient;  // of the parameters
    Executable update;    // parameters, and a gradient of each replica
    Value params;
  };

  void Go() override {
    const size_t count = std::min(kMaxReplicas, hosts().size());
    const size_t stride = hosts().size() / count;  // hosts of different islands, if there are enough
    replicas_.resize(count);
    compiling_ = static_cast<int>(count) * 2;
    const int us = static_cast<int>(Number("us", 50));
    for (size_t r = 0; r < count; ++r) {
      replicas_[r].devices = hosts()[(r * stride + static_cast<size_t>(number())) % hosts().size()];
      tenant().Compile(replicas_[r].devices, 1, us, [this, r](Executable e) { Compiled(&replicas_[r].gradient, std::move(e)); });
      tenant().Compile(replicas_[r].devices, static_cast<int>(count) + 1, us,
                       [this, r](Executable e) { Compiled(&replicas_[r].update, std::move(e)); });
    }
  }
  void Compiled(Executable* to, Executable executable) {
    *to = std::move(executable);
    if (--compiling_ > 0) return;
    for (const Replica& replica : replicas_) {
      if (!replica.gradient.usable || !replica.update.usable) return Finish();
    }
    for (Replica& replica : replicas_) replica.params = tenant().Make(replica.devices, {0, 1, 2, 3});
    Step();
  }
  void Step() {
    if (steps_-- == 0) return Finish();
    std::vector<Value> used;
    std::vector<Value> gradients;
    for (Replica& replica : replicas_) gradients.push_back(tenant().Run(replica.gradient, {replica.params}));
    used = gradients;
    for (Replica& replica : replicas_) {
      std::vector<Value> args = {replica.params};
      for (const Value& gradient : gradients) {
        args.push_back(gradient.devices == replica.devices ? gradient : tenant().Copy(gradient, replica.devices));
        used.push_back(args.back());
      }
      used.push_back(replica.params);
      replica.params = tenant().Run(replica.update, args);
    }
    std::sort(used.begin(), used.end(), [](const Value& a, const Value& b) { return a.handle < b.handle; });
    used.erase(std::unique(used.begin(), used.end(), [](const Value& a, const Value& b) { return a.handle == b.handle; }),
               used.end());
    tenant().Drop(used);
    Check();
  }
  // Reads the parameters of every replica; starts over from small numbers before they outgrow a float.
  void Check() {
    reading_ = replicas_.size();
    for (const Replica& replica : replicas_) {
      tenant().Read(replica.params, [this] {
        if (--reading_ > 0) return;
        for (Replica& r : replicas_) {
          if (r.params.expected[3] < (1 << 16)) continue;
          tenant().Drop({r.params});
          r.params = tenant().Make(r.devices, {0, 1, 2, 3});
        }
        Step();
      });
    }
  }

  int64_t steps_;
  int compiling_ = 0;
  size_t reading_ = 0;
  std::vector<Replica> replicas_;
};

}  // namespace

std::unique_ptr<Workload> MakeTraining(const WorkloadContext& context, const WorkloadSpec& spec) {
  return std::make_unique<Training>(context, spec);
}

}  // namespace pw::sim
