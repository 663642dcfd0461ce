#include "pathways/device/simulated/runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/status_macros.h"
#include "pathways/buffers/byte_strides.h"
#include "pathways/device/simulated/contents.h"

namespace pw::device {

struct SimulatedRuntime::State {
  SimulatedOptions options;
  RuntimeInfo info;
  std::vector<DeviceInfo> devices;
  std::atomic<int> live_buffers{0};

  mutable std::mutex mu;
  bool holding = true;                       // guarded by mu
  std::vector<Task> held;                    // guarded by mu
  std::shared_ptr<HostCallHandler> handler;  // guarded by mu
  int compilations = 0;                      // guarded by mu
  std::vector<int> launches;                 // guarded by mu
  std::vector<int> aborted;                  // guarded by mu
  std::vector<Future<Unit>> last;            // the end of each device's last enqueued execution; guarded by mu

  void Run(Task task) {
    if (options.executor != nullptr) return options.executor->Post(std::move(task));
    std::move(task)();
  }
  void RunHeld(Task task) {
    {
      std::lock_guard<std::mutex> lock(mu);
      if (holding) return held.push_back(std::move(task));
    }
    Run(std::move(task));
  }
};

namespace {

using State = SimulatedRuntime::State;

int64_t Elements(const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

class SimulatedBuffer : public DeviceBuffer {
 public:
  SimulatedBuffer(std::shared_ptr<State> state, DType dtype, Dims dims, int device, std::string kind, Future<Bytes> contents)
      : state_(std::move(state)),
        dtype_(dtype),
        dims_(std::move(dims)),
        device_(device),
        kind_(std::move(kind)),
        contents_(std::move(contents)) {
    ++state_->live_buffers;
  }
  ~SimulatedBuffer() override { --state_->live_buffers; }

  DType dtype() const override { return dtype_; }
  const Dims& dims() const override { return dims_; }
  int device() const override { return device_; }
  const std::string& memory_kind() const override { return kind_; }
  Future<Unit> Ready() override {
    Promise<Unit> promise;
    Future<Unit> future = promise.future();
    contents_.OnReady([promise = std::move(promise)](const absl::StatusOr<Bytes>& bytes) mutable {
      promise.Set(bytes.ok() ? absl::StatusOr<Unit>(Unit{}) : bytes.status());
    });
    return future;
  }
  Future<Bytes> ToHost() override {
    if (donated_) return Future<Bytes>::Ready(absl::FailedPreconditionError("ToHost of a donated buffer"));
    return contents_;
  }
  absl::StatusOr<Bytes> HostView() override {
    if (donated_) return absl::FailedPreconditionError("HostView of a donated buffer");
    if (!contents_.ready()) return absl::FailedPreconditionError("HostView of a buffer that is not ready");
    return contents_.value();
  }
  Future<Unit> CopyToHost(uint8_t* out, size_t size, std::shared_ptr<const void> owner) override {
    if (donated_) return Future<Unit>::Ready(absl::FailedPreconditionError("CopyToHost of a donated buffer"));
    return CopyOnceThere(contents_, out, size, std::move(owner));
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> CopyTo(int device, absl::string_view kind) override {
    if (donated_) return absl::FailedPreconditionError("CopyTo of a donated buffer");
    PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, kind));
    return std::make_unique<SimulatedBuffer>(state_, dtype_, dims_, device, kind.empty() ? "device" : std::string(kind),
                                             contents_);
  }

  const Future<Bytes>& contents() const { return contents_; }
  bool donated() const { return donated_; }
  void Donate() { donated_ = true; }

 private:
  const std::shared_ptr<State> state_;
  const DType dtype_;
  const Dims dims_;
  const int device_;
  const std::string kind_;
  const Future<Bytes> contents_;
  std::atomic<bool> donated_{false};
};

// A parsed program of format "sim".
struct Recipe {
  int args = 0;
  int outputs = 0;
  Dims dims;
  std::vector<int32_t> donate;
  std::string fail;
  std::optional<float> below;
  bool index = false;
  bool hold = false;
  uint64_t callback = 0;
  int64_t microseconds = 0;
  int64_t ring_bytes = 0, ring_steps = 0;
};

absl::StatusOr<Recipe> Parse(const std::string& text, const std::string& version) {
  Recipe recipe;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    if (absl::ConsumePrefix(&word, "StableHLO_v")) {
      if (word == version) continue;
      return absl::InvalidArgumentError(absl::StrCat("cannot deserialize what was written for ", word));
    }
    const std::pair<std::string, std::string> kv = absl::StrSplit(word, absl::MaxSplits('=', 1));
    bool good = true;
    if (kv.first == "args")
      good = absl::SimpleAtoi(kv.second, &recipe.args);
    else if (kv.first == "outputs")
      good = absl::SimpleAtoi(kv.second, &recipe.outputs);
    else if (kv.first == "hold")
      recipe.hold = kv.second == "1";
    else if (kv.first == "pathways_host_callback")  // by which the controller, too, knows that a program calls back
      good = absl::SimpleAtoi(kv.second, &recipe.callback);
    else if (kv.first == "us")
      good = absl::SimpleAtoi(kv.second, &recipe.microseconds) && recipe.microseconds >= 0;
    else if (kv.first == "ring") {
      const std::pair<std::string, std::string> both = absl::StrSplit(kv.second, absl::MaxSplits(':', 1));
      good = absl::SimpleAtoi(both.first, &recipe.ring_bytes) && absl::SimpleAtoi(both.second, &recipe.ring_steps);
    } else if (kv.first == "below")
      good = absl::SimpleAtof(kv.second, &recipe.below.emplace());
    else if (kv.first == "index")
      recipe.index = kv.second == "1";
    else if (kv.first == "fail")
      recipe.fail = absl::StrReplaceAll(kv.second, {{"_", " "}});
    else if (kv.first == "invalid")
      return absl::InvalidArgumentError(absl::StrReplaceAll(kv.second, {{"_", " "}}));
    else if (kv.first == "dims") {
      for (absl::string_view d : absl::StrSplit(kv.second, 'x', absl::SkipEmpty()))
        good = good && absl::SimpleAtoi(d, &recipe.dims.emplace_back());
    } else if (kv.first == "donate") {
      for (absl::string_view d : absl::StrSplit(kv.second, ',', absl::SkipEmpty()))
        good = good && absl::SimpleAtoi(d, &recipe.donate.emplace_back());
    } else {
      good = false;
    }
    if (!good) return absl::InvalidArgumentError(absl::StrCat("a simulated program cannot say '", word, "'"));
  }
  if ((recipe.below.has_value() || recipe.index) && (recipe.outputs < 1 || Elements(recipe.dims) < 1))
    return absl::InvalidArgumentError("a simulated program with 'below' or 'index' has a result with elements");
  return recipe;
}

Bytes Compute(const Recipe& recipe, int output, const std::vector<Bytes>& args) {
  const int64_t n = Elements(recipe.dims);
  AlignedBytes result(n * sizeof(float));
  for (int64_t e = 0; e < n; ++e) {
    float sum = static_cast<float>(output + 1);
    for (size_t i = 0; i < args.size(); ++i) {
      float x;
      std::memcpy(&x, args[i].data() + e * sizeof(float), sizeof(float));
      sum += static_cast<float>(i + 1) * x;
    }
    std::memcpy(result.data() + e * sizeof(float), &sum, sizeof(float));
  }
  return std::move(result).Freeze();
}

// Returns the additional result of a recipe with `below`. `first`: result 0.
Bytes IsBelow(const Recipe& recipe, const Bytes& first) {
  float x;
  std::memcpy(&x, first.data(), sizeof(float));
  return Bytes::Copy(std::string_view(x < *recipe.below ? "\1" : "\0", 1));
}

// Returns the additional result of a recipe with `index`. `first`: result 0.
Bytes IndexOf(const Bytes& first) {
  float x;
  std::memcpy(&x, first.data(), sizeof(float));
  const auto index = static_cast<int32_t>(x);
  return Bytes::Copy({reinterpret_cast<const char*>(&index), sizeof index});
}

// One device's part of an execution.
struct Execution {
  std::shared_ptr<State> state;
  Recipe recipe;
  SessionId session;
  int device;
  std::vector<Future<Bytes>> inputs;
  std::vector<Promise<Bytes>> outputs;
  Promise<Unit> done;

  void Finish(const absl::StatusOr<std::vector<Bytes>>& results) {
    for (size_t k = 0; k < outputs.size(); ++k)
      outputs[k].Set(results.ok() ? absl::StatusOr<Bytes>((*results)[k]) : results.status());
    done.Set(results.ok() ? absl::StatusOr<Unit>(Unit{}) : results.status());
  }
};

void Calculate(const std::shared_ptr<Execution>& e) {
  std::vector<Bytes> args;
  for (const Future<Bytes>& input : e->inputs) {
    if (!input.value().ok()) return e->Finish(input.value().status());
    args.push_back(*input.value());
  }
  if (!e->recipe.fail.empty()) return e->Finish(absl::InternalError(e->recipe.fail));
  std::vector<Bytes> results;
  for (int k = 0; k < e->recipe.outputs; ++k) results.push_back(Compute(e->recipe, k, args));
  if (e->recipe.below.has_value()) results.push_back(IsBelow(e->recipe, results[0]));
  if (e->recipe.index) results.push_back(IndexOf(results[0]));
  if (e->recipe.callback == 0) return e->Finish(std::move(results));
  std::shared_ptr<HostCallHandler> handler;
  {
    std::lock_guard<std::mutex> lock(e->state->mu);
    handler = e->state->handler;
  }
  if (handler == nullptr) return e->Finish(absl::UnavailableError("nobody answers host callbacks"));
  HostCallRequest request{e->session, e->recipe.callback, e->device, {}, {static_cast<int64_t>(results[0].size())}};
  for (const Bytes& arg : args) request.operands.push_back({DType::kF32, e->recipe.dims, arg});
  (*handler)(std::move(request), [e, results](HostCallReply reply) mutable {
    if (!reply.ok()) return e->Finish(reply.status());
    if (reply->size() != 1) return e->Finish(absl::InvalidArgumentError("a simulated callback returns one result"));
    results[0] = reply->front();
    e->Finish(std::move(results));
  });
}

// Calculates the results when all inputs from `next` on exist, and executions are not held.
void WhenInputs(const std::shared_ptr<Execution>& e, size_t next) {
  if (next < e->inputs.size())
    return e->inputs[next].OnReady([e, next](const absl::StatusOr<Bytes>&) { WhenInputs(e, next + 1); });
  if (e->recipe.hold) return e->state->RunHeld([e] { Calculate(e); });
  e->state->Run([e] { Calculate(e); });
}

// Calls `then` once all have ended, with or without an error.
void AfterAll(std::vector<Future<Unit>> all, Task then) {
  auto left = std::make_shared<std::atomic<size_t>>(all.size() + 1);
  auto task = std::make_shared<Task>(std::move(then));
  auto one_less = [left, task] {
    if (left->fetch_sub(1) == 1) std::move (*task)();
  };
  for (const Future<Unit>& future : all) future.OnReady([one_less](const absl::StatusOr<Unit>&) { one_less(); });
  one_less();
}

// The devices begin the execution together, when the inputs exist and all earlier executions on them have ended.
void RunInTurn(const std::shared_ptr<State>& state, const std::vector<std::shared_ptr<Execution>>& parts,
               const Future<Unit>& done) {
  std::vector<Future<Unit>> before;
  {
    std::lock_guard<std::mutex> lock(state->mu);
    state->last.resize(state->devices.size());
    for (const auto& part : parts) {
      Future<Unit>& last = state->last[part->device];
      if (last.valid()) before.push_back(last);
      last = done;
    }
  }
  for (const auto& part : parts) {
    for (const Future<Bytes>& input : part->inputs) {
      Promise<Unit> there;
      before.push_back(there.future());
      input.OnReady([there = std::move(there)](const absl::StatusOr<Bytes>&) mutable { there.Set(Unit{}); });
    }
  }
  AfterAll(std::move(before), [state, parts] {
    const absl::Duration busy = absl::Microseconds(parts.empty() ? 0 : parts.front()->recipe.microseconds);
    state->options.timers->After(busy, state->options.executor, [parts] {
      for (const auto& part : parts) Calculate(part);
    });
  });
}

Future<Unit> JoinAll(std::vector<Future<Unit>> parts) {
  struct Joined {
    std::mutex mu;
    size_t left;
    absl::Status status;
    Promise<Unit> promise;
  };
  auto joined = std::make_shared<Joined>();
  joined->left = parts.size();
  Future<Unit> future = joined->promise.future();
  for (const Future<Unit>& part : parts) {
    part.OnReady([joined](const absl::StatusOr<Unit>& value) {
      std::unique_lock<std::mutex> lock(joined->mu);
      if (joined->status.ok()) joined->status = value.status();
      if (--joined->left > 0) return;
      lock.unlock();
      joined->promise.Set(joined->status.ok() ? absl::StatusOr<Unit>(Unit{}) : joined->status);
    });
  }
  return future;
}

class SimulatedProgram : public LoadedProgram {
 public:
  SimulatedProgram(std::shared_ptr<State> state, Recipe recipe, const CompileRequest& request)
      : state_(std::move(state)), recipe_(std::move(recipe)), text_(request.program) {
    info_.name = "simulated";
    info_.fingerprint = text_;
    info_.devices = request.devices;
    info_.donated_inputs = recipe_.donate;
    info_.code_bytes = static_cast<int64_t>(text_.size());
    info_.outputs.assign(recipe_.outputs, {DType::kF32, recipe_.dims, "", "", "device"});
    if (recipe_.below.has_value()) info_.outputs.push_back({DType::kPred, {}, "", "", "device"});
    if (recipe_.index) info_.outputs.push_back({DType::kS32, {}, "", "", "device"});
    info_.parameters.assign(recipe_.args, {DType::kF32, recipe_.dims, "", "", "device"});
  }

  const ProgramInfo& info() const override { return info_; }

  absl::StatusOr<Launch> Execute(absl::Span<DeviceBuffer* const> arguments, const LaunchOptions& options) override {
    const size_t args = info_.parameters.size();
    if (arguments.size() != args * info_.devices.size()) return absl::InvalidArgumentError("wrong number of arguments");
    for (DeviceBuffer* argument : arguments) {
      if (static_cast<SimulatedBuffer*>(argument)->donated())
        return absl::FailedPreconditionError("Execute with a donated buffer");
    }
    {
      std::lock_guard<std::mutex> lock(state_->mu);
      state_->launches.push_back(options.launch_id);
    }
    Launch launch;
    std::vector<Future<Unit>> done;
    std::vector<std::shared_ptr<Execution>> executions;
    for (size_t p = 0; p < info_.devices.size(); ++p) {
      auto e = std::make_shared<Execution>();
      e->state = state_;
      e->recipe = recipe_;
      e->session = options.session;
      e->device = info_.devices[p];
      for (size_t k = 0; k < args; ++k) e->inputs.push_back(static_cast<SimulatedBuffer*>(arguments[p * args + k])->contents());
      for (const ValueInfo& value : info_.outputs) {
        launch.outputs.push_back(std::make_unique<SimulatedBuffer>(state_, value.dtype, value.dims, e->device, "device",
                                                                   e->outputs.emplace_back().future()));
      }
      done.push_back(e->done.future());
      executions.push_back(std::move(e));
    }
    for (int32_t k : info_.donated_inputs) {
      if (std::count(options.non_donatable.begin(), options.non_donatable.end(), k) > 0) continue;
      for (size_t p = 0; p < info_.devices.size(); ++p) static_cast<SimulatedBuffer*>(arguments[p * args + k])->Donate();
    }
    launch.done = JoinAll(std::move(done));
    if (state_->options.timers != nullptr) {
      RunInTurn(state_, executions, launch.done);
    } else {
      for (const auto& e : executions) WhenInputs(e, 0);
    }
    return launch;
  }

  absl::StatusOr<std::string> Text() override { return text_; }
  absl::StatusOr<std::string> Module() override { return absl::UnimplementedError("simulated devices run no HLO modules"); }
  absl::StatusOr<std::map<std::string, double>> CostAnalysis() override {
    return std::map<std::string, double>{{"flops", static_cast<double>(Elements(recipe_.dims) * recipe_.args * recipe_.outputs)},
                                         {"collective bytes", static_cast<double>(recipe_.ring_bytes)},
                                         {"collective steps", static_cast<double>(recipe_.ring_steps)}};
  }
  absl::StatusOr<std::string> Serialize() override { return absl::StrCat("simulated:", text_); }

 private:
  const std::shared_ptr<State> state_;
  const Recipe recipe_;
  const std::string text_;
  ProgramInfo info_;
};

}  // namespace

SimulatedRuntime::SimulatedRuntime(SimulatedOptions options) : state_(std::make_shared<State>()) {
  state_->info = {options.platform_name, "simulated 1", options.stablehlo_version, "0"};
  state_->info.process_address = options.process;
  for (int i = 0; i < options.devices; ++i) {
    DeviceInfo device;
    device.runtime_id = i;
    device.local_hardware_id = i;
    device.kind = "simulated";
    device.to_string = device.debug_string = absl::StrCat("SimulatedDevice(", i, ")");
    device.memories = {{"device", 0}, {"pinned_host", 1}};
    state_->devices.push_back(std::move(device));
  }
  state_->options = std::move(options);
}

SimulatedRuntime::~SimulatedRuntime() = default;

const RuntimeInfo& SimulatedRuntime::info() const { return state_->info; }
const std::vector<DeviceInfo>& SimulatedRuntime::devices() const { return state_->devices; }

absl::StatusOr<std::unique_ptr<DeviceBuffer>> SimulatedRuntime::FromHost(HostArray array, int device,
                                                                         absl::string_view memory_kind) {
  PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, memory_kind));
  Bytes data = array.data;
  if (array.byte_strides.has_value()) {
    PW_ASSIGN_OR_RETURN(data, buffers::Densify(std::move(data), buffers::HostBytes(array.dtype), array.dims, *array.byte_strides,
                                               std::numeric_limits<int64_t>::max()));
  }
  return std::make_unique<SimulatedBuffer>(state_, array.dtype, std::move(array.dims), device,
                                           memory_kind.empty() ? "device" : std::string(memory_kind),
                                           Future<Bytes>::Ready(std::move(data)));
}

absl::StatusOr<std::shared_ptr<LoadedProgram>> SimulatedRuntime::Compile(const CompileRequest& request) {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    ++state_->compilations;
  }
  PW_ASSIGN_OR_RETURN(Recipe recipe, Parse(request.program, state_->info.stablehlo_version));
  for (int device : request.devices) PW_RETURN_IF_ERROR(CheckPlace(state_->devices, device, ""));
  return std::make_shared<SimulatedProgram>(state_, std::move(recipe), request);
}

absl::StatusOr<std::shared_ptr<LoadedProgram>> SimulatedRuntime::Load(const std::string& serialized,
                                                                      const CompileRequest& request) {
  if (serialized != absl::StrCat("simulated:", request.program)) return absl::InvalidArgumentError("not a simulated program");
  PW_ASSIGN_OR_RETURN(Recipe recipe, Parse(request.program, state_->info.stablehlo_version));
  return std::make_shared<SimulatedProgram>(state_, std::move(recipe), request);
}

absl::StatusOr<MemoryUsage> SimulatedRuntime::Memory(int device) {
  return absl::UnimplementedError("simulated devices count no memory");
}

void SimulatedRuntime::SetHostCallHandler(HostCallHandler handler) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->handler = handler ? std::make_shared<HostCallHandler>(std::move(handler)) : nullptr;
}

void SimulatedRuntime::ReleaseHeld() {
  std::vector<Task> held;
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->holding = false;
    held.swap(state_->held);
  }
  for (Task& task : held) state_->Run(std::move(task));
}

int SimulatedRuntime::live_buffers() const { return state_->live_buffers; }

int SimulatedRuntime::compilations() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->compilations;
}

std::vector<int> SimulatedRuntime::launches() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->launches;
}

void SimulatedRuntime::AbortLaunch(int launch_id, const absl::Status&) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->aborted.push_back(launch_id);
}

std::vector<int> SimulatedRuntime::aborted() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->aborted;
}

}  // namespace pw::device
