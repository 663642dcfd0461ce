#include "pathways/worker/route/routes.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"
#include "pathways/base/status_macros.h"
#include "pathways/program/program.h"
#include "pathways/program/route.h"
#include "pathways/worker/route/row_gather.h"
#include "pathways/worker/route/row_split.h"
#include "pathways/worker/transfer/placement.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

constexpr size_t kTupleBytes = size_t{1} << 20;  // of rows

absl::Status EndedEarly() {
  return absl::AbortedError("the route ended before it was complete, as the controller or a host was lost");
}

// Calls `then` with the error of a shard that could not be read: the shard's own if it fails, maybe a little later, else `error`.
void WhyUnread(const ShardRef& shard, const absl::Status& error, std::function<void(const absl::Status&)> then) {
  shard->OnSettled([raw = shard.get(), error, then = std::move(then)] { then(raw->failed() ? raw->error() : error); });
}

}  // namespace

// One host's part of a run. Its operators hold it, and callbacks of theirs that are in flight.
class Routes::Run {
 public:
  Run(Routes* routes, dataflow::RunId id, v1::RouteRun message, std::string location, int parts, bool is_new)
      : routes_(routes), id_(id), message_(std::move(message)), location_(std::move(location)), left_(parts), is_new_(is_new) {
    if (routes_->context_->recorder().on()) begun_ = routes_->context_->recorder().Now();
  }

  // The run has ended early.
  ~Run() {
    if (is_new_ && left_ > 0) Answer(refused_.ok() ? EndedEarly() : At(refused_));
  }
  Run(const Run&) = delete;

  dataflow::RunId id() const { return id_; }
  bool is_new() const { return is_new_; }
  const v1::RouteRun& message() const { return message_; }
  SessionId session() const { return SessionOr(message_.session(), message_.op()); }
  // Adds the node's location in the user's program to an error that begins here.
  absl::Status At(const absl::Status& error) const { return program::WithLocation(error, location_); }
  void CountBytes(int64_t bytes) { bytes_ += bytes; }

  // It ends early, for this reason. Returns the reason.
  absl::Status Refuse(const absl::Status& why) {
    refused_.Update(why);
    return why;
  }

  // Ends the part of one of the operators here (RO-1).
  void EndPart(const absl::Status& status) {
    status_.Update(status);
    if (--left_ == 0 && is_new_) Answer(status_);
  }

 private:
  void Answer(const absl::Status& status) const {
    WorkerContext& context = *routes_->context_;
    context.outbox().Done(message_.op(), status);
    context.recorder().Span(trace::Kind::kTransfer, "transfers", "route", begun_,
                            {.flow = message_.op(), .bytes = bytes_, .session = session().v});
  }

  Routes* const routes_;
  const dataflow::RunId id_;
  const v1::RouteRun message_;
  const std::string location_;
  int left_;
  const bool is_new_;
  absl::Status status_;
  absl::Status refused_;
  int64_t bytes_ = 0;  // of tuples
  absl::Time begun_ = absl::InfinitePast();
};

// ---------------------------------------------------------------------------------------------------------------- sending

class Routes::Sender : public dataflow::Operator {
 public:
  Sender(Routes* routes, RunRef run, RowSplit split, uint32_t receivers)
      : routes_(routes),
        state_(std::make_shared<State>(State{routes, std::move(run), std::move(split), std::vector<bool>(receivers)})) {}
  ~Sender() override { state_->End(EndedEarly()); }

  void OnStart(dataflow::Shard& shard) override {
    const StateRef state = state_;
    state->ref = shard.ref();
    if (!state->run->is_new()) {
      state->ended = true;
      return shard.Finish(absl::AbortedError("this host has had the route before"));
    }
    auto task = std::make_shared<Hazards::Task>();
    if (absl::Status found = Find(state, task.get()); !found.ok()) {
      state->End(found);
      return shard.Finish(found);
    }
    task->run = [routes = routes_, state](const absl::Status& inputs) {
      Read(routes, state, inputs);
      return Hazards::Outcome::kDone;
    };
    routes_->arrays_->hazards().Submit(std::move(task));
  }

  // It has no inputs: comes directly after OnStart.
  void OnInputsClosed(dataflow::Shard&) override {}
  void OnWritable(dataflow::Shard& shard) override { Pump(state_, shard); }

 private:
  struct Source {
    ShardRef rows, keys;
    Bytes rows_bytes, keys_bytes;
  };
  // Outlives the operator while the device runtime copies.
  struct State {
    Routes* routes;
    RunRef run;
    RowSplit split;
    std::vector<bool> through;  // the receivers that have had all
    std::vector<Source> sources{};
    size_t left = 0;  // copies to host memory
    absl::Status status{};
    dataflow::ShardRef ref{};
    HostQuota::Charge charge = nullptr;
    bool ready = false, ended = false;

    void End(const absl::Status& end) {
      if (std::exchange(ended, true)) return;
      charge = nullptr;
      run->EndPart(end);
    }
  };
  using StateRef = std::shared_ptr<State>;

  static absl::Status Find(const StateRef& state, Hazards::Task* task) {
    const v1::RouteRun& message = state->run->message();
    const auto find = [&](uint32_t input, int32_t shard) {
      return state->routes->arrays_->store().FindOrFailed(ArrayId(message.inputs(static_cast<int>(input))), shard);
    };
    const auto inputs = static_cast<uint32_t>(message.inputs_size());
    for (const auto& piece : state->split.config().pieces()) {
      if (piece.rows_input() >= inputs || piece.keys_input() >= inputs)
        return absl::InvalidArgumentError(absl::StrCat("a route does not have ", inputs, " inputs"));
      Source& source = state->sources.emplace_back();
      source.rows = find(piece.rows_input(), piece.shard());
      source.keys = find(piece.keys_input(), piece.shard());
      task->reads.push_back(source.rows);
      task->reads.push_back(source.keys);
    }
    return absl::OkStatus();
  }

  static absl::Status Check(const State& state) {
    for (size_t i = 0; i < state.sources.size(); ++i) {
      const auto& piece = state.split.config().pieces(static_cast<int>(i));
      const device::DeviceBuffer* const rows = state.sources[i].rows->buffer();
      const device::DeviceBuffer* const keys = state.sources[i].keys->buffer();
      if (rows == nullptr || keys == nullptr)
        return absl::FailedPreconditionError("an array to route has been donated or deleted");
      PW_ASSIGN_OR_RETURN(const int64_t bytes, buffers::DenseBytes(rows->dtype(), rows->dims()));
      PW_ASSIGN_OR_RETURN(const int64_t count, buffers::NumElements(keys->dims()));
      if (bytes != piece.count() * state.split.config().row_bytes() || count != piece.count() ||
          keys->dtype() != buffers::DType::kS32)
        return absl::InvalidArgumentError("an array to route has another type or shape");
    }
    return absl::OkStatus();
  }

  // The inputs exist, or one has failed: copies them to host memory.
  static void Read(Routes* routes, const StateRef& state, const absl::Status& inputs) {
    if (state->ended) return;
    state->status = inputs;
    if (inputs.ok()) state->status = state->run->At(Check(*state));
    if (!state->status.ok()) return Finish(state);
    state->left = 2 * state->sources.size() + 1;
    int64_t bytes = 0;
    for (Source& source : state->sources) {
      bytes += Copy(routes, state, source.rows, &source.rows_bytes);
      bytes += Copy(routes, state, source.keys, &source.keys_bytes);
    }
    state->charge = routes->quota_->Take(HostQuota::Way::kBetween, state->run->session(), bytes);
    Copied(state, absl::OkStatus());
  }

  // Returns the bytes of the copy. `to` is part of the state.
  static int64_t Copy(Routes* routes, const StateRef& state, const ShardRef& shard, Bytes* to) {
    const int device = shard->device();
    routes->arrays_->AwaitWork(
        state->run->session(), {&device, 1}, shard->buffer()->ToHost(), [state, shard, to](const absl::StatusOr<Bytes>& bytes) {
          if (!bytes.ok()) return WhyUnread(shard, bytes.status(), [state](const absl::Status& error) { Copied(state, error); });
          *to = *bytes;
          Copied(state, absl::OkStatus());
        });
    return *buffers::DenseBytes(shard->buffer()->dtype(), shard->buffer()->dims());
  }

  static void Copied(const StateRef& state, const absl::Status& status) {
    state->status.Update(status);
    if (--state->left > 0 || state->ended) return;
    for (Source& source : state->sources) {
      if (!state->status.ok()) break;
      const auto* keys = reinterpret_cast<const int32_t*>(source.keys_bytes.data());
      state->status = state->run->At(state->split.Add({keys, source.keys_bytes.size() / sizeof(int32_t)}, source.rows_bytes));
    }
    state->sources.clear();
    if (!state->status.ok()) return Finish(state);
    state->ready = true;
    state->routes->runtime_()->With(state->ref, [&](dataflow::Shard& shard) { Pump(state, shard); });
  }

  // Sends what the engine takes now.
  static void Pump(const StateRef& state, dataflow::Shard& shard) {
    if (!state->ready || state->ended) return;
    const dataflow::EdgeId edge = shard.outputs()[0];
    bool all = true;
    for (uint32_t receiver = 0; receiver < state->through.size(); ++receiver) {
      while (!state->through[receiver] && shard.CanSend(edge, receiver)) {
        absl::StatusOr<std::optional<Bytes>> tuple = state->split.Next(receiver, kTupleBytes);
        if (!tuple.ok()) {
          state->status = state->run->At(tuple.status());
          return Finish(state);
        }
        if (!tuple->has_value()) {
          state->through[receiver] = true;
          break;
        }
        state->run->CountBytes(static_cast<int64_t>((*tuple)->size()));
        shard.Send(edge, receiver, {**std::move(tuple), absl::OkStatus()});
      }
      all = all && state->through[receiver];
    }
    if (!all) return;
    state->End(absl::OkStatus());
    shard.Finish();
  }

  // Ends with an error, which the edge takes to all receivers.
  static void Finish(const StateRef& state) {
    if (state->ended) return;
    state->End(state->status);
    state->sources.clear();
    // Not inside a callback of the operator.
    WorkerContext* const context = state->routes->context_;
    context->strand()->Post([state, alive = context->alive()] {
      if (alive.expired()) return;
      state->routes->runtime_()->With(state->ref, [&](dataflow::Shard& shard) { shard.Finish(state->status); });
    });
  }

  Routes* const routes_;
  const StateRef state_;
};

// -------------------------------------------------------------------------------------------------------------- receiving

class Routes::Receiver : public dataflow::Operator {
 public:
  Receiver(Routes* routes, RunRef run, RowGather gather)
      : routes_(routes), state_(std::make_shared<State>(State{routes, std::move(run), std::move(gather)})) {}
  ~Receiver() override { Fail(state_, EndedEarly()); }

  void OnStart(dataflow::Shard& shard) override {
    state_->ref = shard.ref();
    if (!state_->run->is_new()) {
      state_->ended = true;
      return;
    }
    routes_->arrays_->memory().Begin();  // commands that wait for memory may wait for the arrays of this run
    state_->counted = true;
    if (absl::Status made = MakeOutputs(); !made.ok()) state_->status = state_->run->At(made);
  }

  void OnTuple(dataflow::Shard&, dataflow::EdgeId, dataflow::Tuple tuple) override {
    if (state_->ended || !state_->status.ok()) return;
    state_->run->CountBytes(static_cast<int64_t>(tuple.size()));
    state_->charges.push_back(
        routes_->quota_->Take(HostQuota::Way::kBetween, state_->run->session(), static_cast<int64_t>(tuple.size())));
    state_->status = state_->run->At(state_->gather.Add(tuple.data));
  }

  void OnPoisoned(dataflow::Shard& shard, const absl::Status& error) override {
    Fail(state_, error);
    shard.Finish(error);
  }

  void OnInputsClosed(dataflow::Shard& shard) override {
    const StateRef state = state_;
    if (state->ended) return shard.Finish();
    if (state->status.ok()) state->status = state->run->At(state->gather.Sort());
    if (state->status.ok()) state->status = state->run->At(TakeMemory(*state));
    if (!state->status.ok()) {
      Fail(state, state->status);
      return shard.Finish(state->status);
    }
    // Fills the arrays on the pool, as that copies all rows.
    Promise<Unit> promise;
    Future<Unit> filled = promise.future();
    auto fill = [state, promise = std::move(promise)]() mutable {
      for (auto& [made, memory] : state->memory) state->gather.Fill(made.first, made.second, memory.data());
      promise.Set(Unit{});
    };
    if (routes_->host_memory_->copy_pool() != nullptr)
      routes_->host_memory_->copy_pool()->Post(std::move(fill));
    else
      fill();
    routes_->arrays_->Await(filled, [state](const absl::StatusOr<Unit>&) { PlaceAll(state); });
  }

 private:
  using Made = std::pair<int, RowGather::What>;  // of a tile
  struct Output {
    ShardRef shard;
    Made made;
    std::string memory_kind;
  };
  // Outlives the operator while arrays are being filled.
  struct State {
    Routes* routes;
    RunRef run;
    RowGather gather;
    std::vector<Output> outputs{};
    std::map<Made, AlignedBytes> memory{};
    std::vector<HostQuota::Charge> charges{};
    absl::Status status{};
    dataflow::ShardRef ref{};
    size_t left = 0;  // outputs that are not placed
    bool counted = false, placing = false, ended = false;

    void End(const absl::Status& end) {
      if (std::exchange(ended, true)) return;
      charges.clear();
      memory.clear();
      run->EndPart(end);
      if (std::exchange(counted, false)) routes->arrays_->memory().End();
    }
  };
  using StateRef = std::shared_ptr<State>;

  absl::Status MakeOutputs() {
    const v1::RouteRun& message = state_->run->message();
    const v1::RouteReceiver& config = state_->gather.config();
    const auto devices = static_cast<int>(routes_->arrays_->runtime()->devices().size());
    for (int t = 0; t < config.tiles_size(); ++t) {
      for (const auto& output : config.tiles(t).outputs()) {
        if (output.output() >= static_cast<uint32_t>(message.outputs_size()) || output.local_device() < 0 ||
            output.local_device() >= devices)
          return absl::InvalidArgumentError("a route makes an array that does not exist, or on a device that does not");
        const ShardRef shard = routes_->arrays_->NewShard(output.local_device(), state_->run->session());
        state_->outputs.push_back({shard, {t, output.what()}, output.memory_kind()});
        const ArrayId array(message.outputs(static_cast<int>(output.output())));
        routes_->arrays_->store().Bind(array, output.shard(), shard, state_->run->session());
      }
    }
    return absl::OkStatus();
  }

  // Takes the memory of all arrays.
  static absl::Status TakeMemory(State& state) {
    for (const Output& output : state.outputs) {
      if (state.memory.contains(output.made)) continue;
      const int64_t bytes = state.gather.BytesOf(output.made.first, output.made.second);
      std::optional<AlignedBytes> memory = state.routes->host_memory_->blocks().Take(static_cast<size_t>(bytes));
      if (!memory.has_value())
        return absl::ResourceExhaustedError(
            absl::StrCat("the machine has no memory for ", bytes,
                         " bytes of rows that were routed to it: use more devices, or less capacity"));
      state.charges.push_back(state.routes->quota_->Take(HostQuota::Way::kBetween, state.run->session(), bytes));
      state.memory.emplace(output.made, *std::move(memory));
    }
    return absl::OkStatus();
  }

  static void PlaceAll(const StateRef& state) {
    if (state->ended) return;
    state->placing = true;
    std::map<Made, std::pair<Bytes, int>> contents;  // with the number of arrays that share them
    for (auto& [made, memory] : state->memory) contents[made].first = std::move(memory).Freeze();
    state->memory.clear();
    for (const Output& output : state->outputs) ++contents[output.made].second;
    state->left = state->outputs.size() + 1;
    for (const Output& output : state->outputs) {
      const auto& [bytes, sharing] = contents[output.made];
      const auto [tile, what] = output.made;
      Place(state->routes->arrays_, output.shard,
            {bytes, state->gather.DTypeOf(what), state->gather.DimsOf(tile, what), std::nullopt, sharing == 1},
            output.memory_kind, [state](const absl::Status& status) { Placed(state, status); });
    }
    Placed(state, absl::OkStatus());
  }

  static void Placed(const StateRef& state, const absl::Status& status) {
    state->status.Update(status);
    if (--state->left > 0) return;
    state->outputs.clear();
    state->End(state->status);
    state->routes->runtime_()->With(state->ref, [&](dataflow::Shard& shard) { shard.Finish(state->status); });
  }

  // Fails the outputs, unless they are being placed.
  static void Fail(const StateRef& state, const absl::Status& error) {
    if (state->ended || state->placing) return;
    for (const Output& output : std::exchange(state->outputs, {})) output.shard->SetFailed(error);
    state->End(error);
  }

  Routes* const routes_;
  const StateRef state_;
};

// ----------------------------------------------------------------------------------------------------------------- runs

// The nodes of a run are made one after another, and all before the first begins.
absl::StatusOr<Routes::RunRef> Routes::RunOf(const dataflow::OperatorContext& context) {
  if (RunRef known = latest_.lock(); known != nullptr && known->id() == context.run) return known;
  v1::RouteRun message;
  if (!message.ParseFromString(context.argument))
    return absl::InvalidArgumentError("the argument of a route's run does not parse");
  int parts = 0;
  for (const auto& [id, node] : context.graph.nodes()) parts += node.placement->NumShardsOf(context.self) > 0 ? 1 : 0;
  const bool is_new = context_->had().Begin(HadCommands::Kind::kOp, message.op());
  if (!is_new) context_->outbox().DoneAgain(message.op());
  auto run = std::make_shared<Run>(this, context.run, std::move(message), context.graph.node(context.node).name, parts, is_new);
  latest_ = run;
  return run;
}

void Routes::Refuse(const std::string& argument, const absl::Status& why) {
  const RunRef run = latest_.lock();
  if (run != nullptr && run->message().SerializeAsString() == argument) run->Refuse(why).IgnoreError();
}

absl::StatusOr<std::unique_ptr<dataflow::Operator>> Routes::MakeSender(const dataflow::OperatorContext& context) {
  PW_ASSIGN_OR_RETURN(RunRef run, RunOf(context));  // first: it answers, whatever follows
  v1::RouteSender config;
  const std::vector<dataflow::EdgeId>& edges = context.graph.outputs(context.node);
  if (edges.size() != 1 || !config.ParseFromString(context.graph.node(context.node).config))
    return run->Refuse(absl::InvalidArgumentError("the sender of a route does not parse"));
  const uint32_t receivers = context.graph.destination(edges[0]).num_shards();
  absl::StatusOr<RowSplit> split = RowSplit::Create(std::move(config), receivers);
  if (!split.ok()) return run->Refuse(split.status());
  return std::make_unique<Sender>(this, std::move(run), *std::move(split), receivers);
}

absl::StatusOr<std::unique_ptr<dataflow::Operator>> Routes::MakeReceiver(const dataflow::OperatorContext& context) {
  PW_ASSIGN_OR_RETURN(RunRef run, RunOf(context));
  v1::RouteReceiver config;
  if (!config.ParseFromString(context.graph.node(context.node).config))
    return run->Refuse(absl::InvalidArgumentError("the receiver of a route does not parse"));
  absl::StatusOr<RowGather> gather = RowGather::Create(std::move(config));
  if (!gather.ok()) return run->Refuse(gather.status());
  return std::make_unique<Receiver>(this, std::move(run), *std::move(gather));
}

void Routes::AddTo(dataflow::Operators* operators) {
  operators->Add(program::kRouteSend, [this](const dataflow::OperatorContext& context) { return MakeSender(context); });
  operators->Add(program::kRouteReceive, [this](const dataflow::OperatorContext& context) { return MakeReceiver(context); });
}

}  // namespace pw::worker
