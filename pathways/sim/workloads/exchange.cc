// Sparse exchange: every round, copies arrays from a few random hosts to others and computes with them there.
#include <utility>

#include "pathways/sim/workloads.h"

namespace pw::sim {
namespace {

class Exchange final : public Workload {
 public:
  Exchange(const WorkloadContext& context, const WorkloadSpec& spec)
      : Workload(context, spec), rounds_(Number("rounds", 8)), pairs_(static_cast<size_t>(Number("pairs", 8))) {}

 private:
  void Go() override {
    executables_.assign(hosts().size(), {});
    compiling_ = hosts().size();
    for (size_t h = 0; h < hosts().size(); ++h) {
      tenant().Compile({hosts()[h].front()}, 1, static_cast<int>(Number("us", 20)), [this, h](Executable e) {
        executables_[h] = std::move(e);
        if (--compiling_ == 0) Round();
      });
    }
  }
  void Round() {
    if (rounds_-- == 0) return Finish();
    reading_ = 0;
    std::vector<std::vector<Value>> trips;
    for (size_t p = 0; p < pairs_; ++p) {
      const size_t from = AnyHost(), to = AnyHost();
      if (!executables_[to].usable) continue;
      const auto x = static_cast<float>(world().Below(1000));
      const Value made = tenant().Make({hosts()[from].front()}, {x, x + 1, x + 2, x + 3});
      const Value sent = tenant().Copy(made, {hosts()[to].front()});
      trips.push_back({made, sent, tenant().Run(executables_[to], {sent})});
    }
    if (trips.empty()) return Finish();
    reading_ = trips.size();
    for (const std::vector<Value>& trip : trips) {
      tenant().Read(trip.back(), [this, trip] {
        tenant().Drop(trip);
        if (--reading_ == 0) Round();
      });
    }
  }

  int64_t rounds_;
  const size_t pairs_;
  size_t compiling_ = 0;
  size_t reading_ = 0;
  std::vector<Executable> executables_;
};

}  // namespace

std::unique_ptr<Workload> MakeExchange(const WorkloadContext& context, const WorkloadSpec& spec) {
  return std::make_unique<Exchange>(context, spec);
}

}  // namespace pw::sim
