#include "pathways/device/simulated/zero_runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/device/simulated/contents.h"

namespace pw::device {
namespace {

constexpr absl::string_view kAddressPrefix = "simulated:";
constexpr size_t kWorthLooking = 64 << 10;  // smaller contents are kept, zeros or not

bool AreZeros(std::string_view bytes) {
  return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

// Written before the launch's `done` is set, read after that.
using BusyRef = std::shared_ptr<const Interval>;

// A launch, as later launches see it.
struct Launched {
  Future<Unit> done;
  BusyRef busy;
};

// State shared by the programs and buffers of one host.
struct HostState {
  ZeroOptions options;
  RuntimeInfo info;
  std::vector<DeviceInfo> devices;

  std::mutex mu;
  std::vector<Launched> last;  // the last launch enqueued on each device; guarded by mu
};

class ZeroBuffer : public DeviceBuffer {
 public:
  // Empty `contents`: zeros.
  ZeroBuffer(std::shared_ptr<HostState> state, DType dtype, Dims dims, int device, std::string kind, Launched maker,
             Bytes contents)
      : state_(std::move(state)),
        dtype_(dtype),
        dims_(std::move(dims)),
        device_(device),
        kind_(std::move(kind)),
        maker_(std::move(maker)),
        contents_(std::move(contents)) {}

  DType dtype() const override { return dtype_; }
  const Dims& dims() const override { return dims_; }
  int device() const override { return device_; }
  const std::string& memory_kind() const override { return kind_; }
  Future<Unit> Ready() override { return maker_.done; }
  const Launched& maker() const { return maker_; }

  Future<Bytes> ToHost() override {
    if (donated_) return Future<Bytes>::Ready(absl::FailedPreconditionError("ToHost of a donated buffer"));
    Promise<Bytes> promise;
    Future<Bytes> future = promise.future();
    maker_.done.OnReady([bytes = Contents(), promise = std::move(promise)](const absl::StatusOr<Unit>& ready) mutable {
      promise.Set(ready.ok() ? std::move(bytes) : ready.status());
    });
    return future;
  }

  Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) override {
    return CopyOnceThere(ToHost(), out, size, std::move(owner));
  }

  absl::StatusOr<Bytes> HostView() override { return Contents(); }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view kind) override {
    if (donated_) return absl::FailedPreconditionError("CopyTo of a donated buffer");
    PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, kind));
    std::string into(kind.empty() ? state_->devices[device].memories.front().kind : kind);
    return std::make_unique<ZeroBuffer>(state_, dtype_, dims_, device, std::move(into), maker_, contents_);
  }

  bool donated() const { return donated_; }
  void Donate() { donated_ = true; }

 private:
  absl::StatusOr<Bytes> Contents() const {
    if (contents_.data() != nullptr) return contents_;
    size_t size = buffers::HostBytes(dtype_);
    for (int64_t d : dims_) size *= static_cast<size_t>(d);
    Bytes zeros = state_->options.zeros->Take(size);
    if (zeros.size() == size) return zeros;
    return absl::ResourceExhaustedError(absl::StrCat("no address space for ", size, " bytes of zeros"));
  }

  const std::shared_ptr<HostState> state_;
  const DType dtype_;
  const Dims dims_;
  const int device_;
  const std::string kind_;
  const Launched maker_;
  const Bytes contents_;
  std::atomic<bool> donated_{false};
};

// Calls `then` once all have ended, with the latest of `earliest` and their end times, and the first error among those from `inputs` on.
// Errors of the others do not matter.
void AfterAll(std::vector<Launched> all, size_t inputs, absl::Time earliest, Meetings::Then then) {
  struct Gathering {
    std::mutex mu;
    size_t left;  // guarded by mu, as below
    absl::Status status;
    absl::Time latest;
    Meetings::Then then;
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->left = all.size() + 1;
  gathering->latest = earliest;
  gathering->then = std::move(then);
  auto one_less = [gathering](const absl::Status& status, absl::Time end) {
    std::unique_lock<std::mutex> lock(gathering->mu);
    if (gathering->status.ok()) gathering->status = status;
    gathering->latest = std::max(gathering->latest, end);
    if (--gathering->left > 0) return;
    lock.unlock();
    std::move(gathering->then)(gathering->status, gathering->latest);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].done.OnReady([one_less, busy = all[i].busy, counts = i >= inputs](const absl::StatusOr<Unit>& end) {
      one_less(counts ? end.status() : absl::OkStatus(), busy == nullptr ? absl::InfinitePast() : busy->end);
    });
  }
  one_less(absl::OkStatus(), absl::InfinitePast());
}

class ZeroProgram : public LoadedProgram {
 public:
  // `hosts`: number of hosts of the program; `takes`: how long it keeps them busy.
  ZeroProgram(std::shared_ptr<HostState> state, std::shared_ptr<CompiledProgram> compiled, const std::vector<int>& devices,
              int hosts, absl::Duration takes)
      : state_(std::move(state)),
        compiled_(std::move(compiled)),
        info_(compiled_->InfoFor(devices)),
        hosts_(hosts),
        takes_(takes) {}

  const ProgramInfo& info() const override { return *info_; }

  absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) override {
    PW_RETURN_IF_ERROR(Check(arguments));
    const absl::Time now = state_->options.clock->Now();
    Promise<Unit> done;
    auto busy = std::make_shared<Interval>();
    Launch launch;
    launch.done = done.future();
    launch.busy = busy;
    std::vector<Launched> before = TakeTurn({launch.done, busy});
    const size_t inputs = before.size();
    for (DeviceBuffer* argument : arguments) before.push_back(static_cast<ZeroBuffer*>(argument)->maker());
    for (int device : info_->devices) {
      for (const ValueInfo& value : info_->outputs) {
        launch.outputs.push_back(std::make_unique<ZeroBuffer>(state_, value.dtype, value.dims, device, value.memory_kind,
                                                              Launched{launch.done, busy}, Bytes()));
      }
    }
    Donate(arguments, options);
    AfterAll(std::move(before), inputs, now,
             [takes = takes_, state = state_, hosts = hosts_, id = options.launch_id, busy = std::move(busy),
              done = std::move(done)](const absl::Status& status, absl::Time begin) mutable {
               auto run = [state, takes, busy = std::move(busy), done = std::move(done)](const absl::Status& outcome,
                                                                                         absl::Time at) mutable {
                 Run(*state, takes, at, outcome, std::move(busy), std::move(done));
               };
               // The other hosts may not be ready yet.
               if (hosts > 1) return state->options.meetings->Arrive(id, hosts, begin, status, std::move(run));
               run(status, begin);
             });
    return launch;
  }

  absl::StatusOr<std::string> Text() override { return compiled_->program().Text(); }
  absl::StatusOr<std::string> Module() override { return compiled_->program().Module(); }
  absl::StatusOr<std::map<std::string, double>> CostAnalysis() override { return compiled_->program().CostAnalysis(); }
  absl::StatusOr<std::string> Serialize() override {
    return absl::UnimplementedError("simulated hosts keep no compiled programs");
  }

 private:
  absl::Status Check(absl::Span<DeviceBuffer* const> arguments) const {
    const size_t wanted = info_->parameters.size() * info_->devices.size();
    if (arguments.size() != wanted) {
      return absl::InvalidArgumentError(
          absl::StrCat("program '", info_->name, "' takes ", wanted, " arguments on its devices here, not ", arguments.size()));
    }
    for (DeviceBuffer* argument : arguments) {
      if (static_cast<ZeroBuffer*>(argument)->donated()) return absl::FailedPreconditionError("Execute with a donated buffer");
    }
    return absl::OkStatus();
  }

  // Returns the last launch of each device, and makes `next` the last.
  std::vector<Launched> TakeTurn(const Launched& next) {
    std::vector<Launched> before;
    std::lock_guard<std::mutex> lock(state_->mu);
    for (int device : info_->devices) {
      Launched& last = state_->last[device];
      if (last.done.valid()) before.push_back(last);
      last = next;
    }
    return before;
  }

  void Donate(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) const {
    const size_t args = info_->parameters.size();
    for (int32_t k : info_->donated_inputs) {
      if (std::count(options.non_donatable.begin(), options.non_donatable.end(), k) > 0) continue;
      for (size_t p = 0; p < info_->devices.size(); ++p) static_cast<ZeroBuffer*>(arguments[p * args + k])->Donate();
    }
  }

  // Everything was ready at `begin`, which may be in the past.
  static void Run(const HostState& state, absl::Duration takes, absl::Time begin, const absl::Status& outcome,
                  std::shared_ptr<Interval> busy, Promise<Unit> done) {
    *busy = {begin, outcome.ok() ? begin + takes : begin};
    auto end = [done = std::move(done), outcome]() mutable { done.Set(outcome.ok() ? absl::StatusOr<Unit>(Unit{}) : outcome); };
    const absl::Duration left = takes > absl::ZeroDuration() ? busy->end - state.options.clock->Now() : absl::ZeroDuration();
    if (left <= absl::ZeroDuration()) return state.options.executor->Post(std::move(end));
    state.options.timers->After(left, state.options.executor, std::move(end));
  }

  const std::shared_ptr<HostState> state_;
  const std::shared_ptr<CompiledProgram> compiled_;
  const std::shared_ptr<const ProgramInfo> info_;
  const int hosts_;
  const absl::Duration takes_;
};

class ZeroRuntime : public DeviceRuntime {
 public:
  explicit ZeroRuntime(std::shared_ptr<HostState> state) : state_(std::move(state)) {}

  const RuntimeInfo& info() const override { return state_->info; }
  const std::vector<DeviceInfo>& devices() const override { return state_->devices; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> FromHost(HostArray array, int device, absl::string_view memory_kind) override {
    PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, memory_kind));
    Bytes data = array.data;
    if (array.byte_strides.has_value()) {
      PW_ASSIGN_OR_RETURN(data, buffers::Densify(std::move(data), buffers::HostBytes(array.dtype), array.dims,
                                                 *array.byte_strides, std::numeric_limits<int64_t>::max()));
    }
    // Most arrays come from other simulated devices. A pipeline over islands keeps gigabytes of them, so zeros are not stored.
    if (data.size() >= kWorthLooking && AreZeros(data.view())) data = Bytes();
    std::string kind(memory_kind.empty() ? state_->devices[device].memories.front().kind : memory_kind);
    return std::make_unique<ZeroBuffer>(state_, array.dtype, std::move(array.dims), device, std::move(kind),
                                        Launched{Future<Unit>::Ready(Unit{}), nullptr}, std::move(data));
  }

  absl::StatusOr<std::shared_ptr<LoadedProgram>> Compile(const CompileRequest& request) override {
    for (int device : request.devices) PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, ""));
    PW_ASSIGN_OR_RETURN(std::shared_ptr<CompiledProgram> compiled, state_->options.compiler->Compile(request));
    std::set<std::string> hosts;
    for (const Position& position : request.positions) hosts.insert(position.process);
    const absl::Duration takes = IslandsOf(hosts) > 1 ? compiled->busy().between : compiled->busy().inside;
    return std::make_shared<ZeroProgram>(state_, std::move(compiled), request.devices, static_cast<int>(hosts.size()), takes);
  }

  absl::StatusOr<std::shared_ptr<LoadedProgram>> Load(const std::string& serialized, const CompileRequest& request) override {
    return absl::UnimplementedError("simulated hosts keep no compiled programs");
  }
  absl::StatusOr<MemoryUsage> Memory(int device) override {
    return absl::UnimplementedError("simulated devices have no memory of their own");
  }
  void AbortLaunch(int launch_id, const absl::Status& why) override { state_->options.meetings->Abort(launch_id, why); }
  void SetHostCallHandler(HostCallHandler handler) override {}

 private:
  // `hosts`: addresses of processes; empty: only this one.
  size_t IslandsOf(const std::set<std::string>& hosts) const {
    const auto& island_of = state_->options.island_of;
    std::set<int> islands;
    for (const std::string& host : hosts) {
      const std::string name(absl::StripPrefix(host.empty() ? state_->info.process_address : host, kAddressPrefix));
      if (island_of != nullptr) islands.insert(island_of(name));
    }
    return islands.size();
  }

  const std::shared_ptr<HostState> state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceRuntime>> MakeZeroRuntime(const ZeroOptions& options) {
  PW_ASSIGN_OR_RETURN(auto described, options.compiler->Describe());
  auto state = std::make_shared<HostState>();
  state->options = options;
  state->info = std::move(described.first);
  state->info.process_address = absl::StrCat(kAddressPrefix, options.process);
  for (int i = 0; i < options.devices; ++i) {
    DeviceInfo& device = state->devices.emplace_back(described.second);
    device.runtime_id = device.local_hardware_id = i;
    device.kind = "simulated";
    device.to_string = device.debug_string = absl::StrCat("SimulatedDevice(", options.process, ", ", i, ")");
  }
  state->last.resize(options.devices);
  return std::make_unique<ZeroRuntime>(std::move(state));
}

}  // namespace pw::device
