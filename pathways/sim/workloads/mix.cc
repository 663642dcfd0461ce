// All of a client's operations, at random.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "pathways/sim/workloads.h"

namespace pw::sim {
namespace {

constexpr size_t kMaxArrays = 24;
constexpr int kBurst = 12;           // operations between two waits
constexpr float kLargest = 1 << 20;  // above this, sums would lose their distinguishing digits

class Mix final : public Workload {
 public:
  Mix(const WorkloadContext& context, const WorkloadSpec& spec)
      : Workload(context, spec),
        operations_(Number("operations", 100)),
        copies_(Number("copies", 1) != 0),
        slices_wanted_(Number("slices", 0)),
        exclusive_(Number("exclusive", 0) != 0),
        reopen_(Number("reopen", 0)),
        until_reopen_(reopen_) {}

 private:
  void Go() override {
    arrays_.clear();
    executables_.clear();
    slices_.clear();
    if (slices_wanted_ > 0) return TakeSlices();
    // Two computations on each of a few hosts, with one and with two arguments.
    const size_t hosts_used = std::min<size_t>(4, hosts().size());
    compiling_ = static_cast<int>(hosts_used) * 2;
    for (size_t i = 0; i < hosts_used; ++i) {
      std::vector<int32_t> devices = hosts()[AnyHost()];
      devices.resize(1 + world().Below(devices.size()));
      CompileFor(devices);
    }
  }
  void CompileFor(const std::vector<int32_t>& devices) {
    for (int args : {1, 2}) {
      tenant().Compile(devices, args, static_cast<int>(Number("us", 20)), [this](Executable e) {
        if (e.usable) executables_.push_back(std::move(e));
        if (--compiling_ == 0) Burst();
      });
    }
  }

  // Takes slices until there are as many as wanted, and compiles for each.
  void TakeSlices() {
    compiling_ = static_cast<int>(slices_wanted_ - static_cast<int64_t>(slices_.size())) * 2;
    for (int left = compiling_ / 2; left > 0; --left) {
      tenant().AddSlice(1, exclusive_, [this](SliceId slice, const std::vector<int32_t>& devices) {
        if (devices.empty()) return Finish();
        slices_.emplace_back(slice, devices);
        CompileFor(devices);
      });
    }
  }
  // Gives a slice back, with all that is on its devices, and takes another one.
  void ChangeSlice() {
    const size_t i = world().Below(slices_.size());
    const std::vector<int32_t> devices = slices_[i].second;
    tenant().ReleaseSlice(slices_[i].first);
    slices_.erase(slices_.begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<Value> gone;
    std::erase_if(arrays_, [&](const Value& value) {
      if (value.devices != devices) return false;
      gone.push_back(value);
      return true;
    });
    std::erase_if(executables_, [&](const Executable& e) { return e.devices == devices; });
    if (!gone.empty()) tenant().Drop(gone);
    TakeSlices();
  }

  void Burst() {
    if (executables_.empty() || operations_ <= 0) return Wait();
    for (int i = 0; i < kBurst && operations_ > 0; ++i, --operations_, --until_reopen_) Step();
    Wait();
  }
  // Waits for one array, or at the end for all.
  void Wait() {
    const bool last = executables_.empty() || operations_ <= 0;
    const bool reopen = reopen_ > 0 && until_reopen_ <= 0 && !last;
    if (arrays_.empty()) return last ? Finish() : Continue(reopen);
    const std::vector<Value> asked = last ? arrays_ : std::vector<Value>{arrays_[world().Below(arrays_.size())]};
    reading_ = asked.size();
    for (const Value& value : asked) {
      tenant().Read(value, [this, last, reopen] {
        if (--reading_ > 0) return;
        if (last) return Finish();
        Continue(reopen);
      });
    }
  }
  void Continue(bool reopen) {
    if (!reopen && !slices_.empty() && world().Below(8) == 0) return ChangeSlice();
    if (!reopen) return Burst();
    until_reopen_ = reopen_;
    Reopen();
  }

  void Step() {
    switch (world().Below(8)) {
      case 0:
      case 1:
        return MakeOne();
      case 2:
        return copies_ ? CopyOne() : RunOne();
      case 3:
        return DropOne();
      default:
        return RunOne();
    }
  }
  void MakeOne() {
    const Executable& e = executables_[world().Below(executables_.size())];
    const auto x = static_cast<float>(world().Below(100));
    Keep(tenant().Make(e.devices, {x, x + 1, x + 2, x + 3}));
  }
  void RunOne() {
    const Executable& e = executables_[world().Below(executables_.size())];
    std::vector<Value> fitting;
    for (const Value& value : arrays_) {
      if (value.devices == e.devices && std::abs(value.expected[3]) < kLargest) fitting.push_back(value);
    }
    if (fitting.empty()) return MakeOne();
    std::vector<Value> args;
    for (int i = 0; i < e.args; ++i) args.push_back(fitting[world().Below(fitting.size())]);
    Keep(tenant().Run(e, args));
  }
  void CopyOne() {
    if (arrays_.empty()) return MakeOne();
    const Value from = arrays_[world().Below(arrays_.size())];
    std::vector<const Executable*> fitting;
    for (const Executable& e : executables_) {
      if (e.devices.size() == from.devices.size()) fitting.push_back(&e);
    }
    if (fitting.empty()) return MakeOne();
    Keep(tenant().Copy(from, fitting[world().Below(fitting.size())]->devices));
  }
  void DropOne() {
    if (arrays_.empty()) return MakeOne();
    const size_t i = world().Below(arrays_.size());
    tenant().Drop({arrays_[i]});
    arrays_.erase(arrays_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  void Keep(Value value) {
    arrays_.push_back(std::move(value));
    if (arrays_.size() > kMaxArrays) DropOne();
  }

  int64_t operations_;
  const bool copies_;  // between executables' devices
  const int64_t slices_wanted_;
  const bool exclusive_;
  std::vector<std::pair<SliceId, std::vector<int32_t>>> slices_;
  const int64_t reopen_;
  int64_t until_reopen_;
  int compiling_ = 0;
  size_t reading_ = 0;
  std::vector<Executable> executables_;
  std::vector<Value> arrays_;
};

}  // namespace

std::unique_ptr<Workload> MakeMix(const WorkloadContext& context, const WorkloadSpec& spec) {
  return std::make_unique<Mix>(context, spec);
}

}  // namespace pw::sim
