#include "pathways/worker/housekeeping/housekeeping.h"

#include <string>
#include <utility>

#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;

// One shard of a node: acts on the run's argument and may send an answer to the same shard of its outputs.
class Duty : public dataflow::Operator {
 public:
  using Do = std::function<absl::StatusOr<std::optional<std::string>>(const std::string& argument)>;
  Duty(Do work, HostId self) : work_(std::move(work)), self_(self) {}
  void OnInputsClosed(dataflow::Shard& shard) override {
    absl::StatusOr<std::optional<std::string>> answer = work_(shard.argument());
    if (answer.ok() && answer->has_value()) {
      for (dataflow::EdgeId edge : shard.outputs()) Send(shard, edge, **answer);
    }
    shard.Finish(answer.status());
  }

 private:
  // Sends to the same shard, or to the shard that combines the answers of many.
  void Send(dataflow::Shard& shard, dataflow::EdgeId edge, const std::string& report) const {
    if (shard.graph().edge(edge).kind == dataflow::EdgeKind::kOneToOne)
      return shard.Send(edge, shard.index(), {Bytes::FromString(report), absl::OkStatus()});
    v1::Gathered gathered;
    auto* answer = gathered.add_answers();
    answer->set_host(self_.v);
    answer->set_report(report);
    shard.Send(edge, 0, {Bytes::FromString(gathered.SerializeAsString()), absl::OkStatus()});
  }

  const Do work_;
  const HostId self_;
};

// The shard of a question that its host may take seconds to answer.
template <class Question, class Report>
class SlowQuestion : public dataflow::Operator {
 public:
  using Ask = std::function<void(const Question&, std::function<void(const Report&)>)>;
  SlowQuestion(WorkerContext* context, dataflow::Runtime* runtime, Ask ask)
      : context_(context), runtime_(runtime), ask_(std::move(ask)) {}
  void OnInputsClosed(dataflow::Shard& shard) override {
    Question question;
    if (!question.ParseFromString(shard.argument()))
      return shard.Finish(absl::InvalidArgumentError("the argument of a question does not parse"));
    ask_(question, [context = context_, runtime = runtime_, ref = shard.ref()](const Report& report) {
      // Not inside the operator's callback.
      context->strand()->Post([runtime, ref, alive = context->alive(), answer = Bytes::FromString(report.SerializeAsString())] {
        if (alive.expired()) return;
        runtime->With(ref, [&](dataflow::Shard& end) {
          for (dataflow::EdgeId edge : end.outputs()) end.Send(edge, end.index(), {answer, absl::OkStatus()});
          end.Finish();
        });
      });
    });
  }

 private:
  WorkerContext* const context_;
  dataflow::Runtime* const runtime_;
  const Ask ask_;
};

// Combines many answers into one. Answers of failed hosts are simply missing.
class Combine : public dataflow::Operator {
 public:
  void OnTuple(dataflow::Shard&, dataflow::EdgeId, dataflow::Tuple tuple) override { all_.append(tuple.data.view()); }
  void OnInputsClosed(dataflow::Shard& shard) override {
    const Bytes bytes = Bytes::FromString(std::move(all_));
    for (dataflow::EdgeId edge : shard.outputs()) shard.Send(edge, shard.index(), {bytes, absl::OkStatus()});
    shard.Finish();
  }
  void OnPoisoned(dataflow::Shard& shard, const absl::Status&) override { OnInputsClosed(shard); }

 private:
  std::string all_;  // serialized Gathered: two of them concatenated are one
};

void Add(dataflow::Operators* operators, std::string name, Duty::Do work) {
  operators->Add(
      std::move(name),
      [work = std::move(work)](const dataflow::OperatorContext& context) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
        return std::make_unique<Duty>(work, context.self);
      });
}

// Adds an operator that answers a question.
template <class Report>
void AddQuestion(dataflow::Operators* operators, std::string name, std::function<Report()> ask) {
  Add(operators, std::move(name), [ask = std::move(ask)](const std::string&) -> absl::StatusOr<std::optional<std::string>> {
    return ask().SerializeAsString();
  });
}

// Adds an operator that answers a question later.
template <class Question, class Report>
void AddSlowQuestion(dataflow::Operators* operators, std::string name, WorkerContext* context, dataflow::Runtime* runtime,
                     std::function<void(const Question&, std::function<void(const Report&)>)> ask) {
  operators->Add(std::move(name),
                 [context, runtime,
                  ask = std::move(ask)](const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
                   return std::make_unique<SlowQuestion<Question, Report>>(context, runtime, ask);
                 });
}

// Adds an operator that obeys an order.
template <class Order>
void AddOrder(dataflow::Operators* operators, std::string name, std::function<std::optional<std::string>(const Order&)> obey) {
  Add(operators, name, [name, obey = std::move(obey)](const std::string& argument) -> absl::StatusOr<std::optional<std::string>> {
    Order order;
    if (!order.ParseFromString(argument)) return absl::InvalidArgumentError(name + ": the argument does not parse");
    return obey(order);
  });
}

// The forwarder and the runtime are not made yet.
dataflow::Operators MakeOperators(WorkerContext* context, const Housekeeping::Duties& duties, OrderForwarder* forwarder,
                                  dataflow::Runtime* runtime, dataflow::Operators operators) {
  AddOrder<v1::HostConfig>(&operators, "configure", [context, configure = duties.configure](const v1::HostConfig& config) {
    configure(config);
    v1::Configured configured;
    configured.set_now_nanoseconds(absl::ToUnixNanos(context->recorder().Now()));
    return configured.SerializeAsString();
  });
  AddOrder<v1::CleanUp>(&operators, "clean-up", [clean_up = duties.clean_up](const v1::CleanUp& what) {
    clean_up(what);
    return std::nullopt;
  });
  AddOrder<v1::AbortLaunch>(&operators, "abort-launch", [abort = duties.abort_launch](const v1::AbortLaunch& launch) {
    abort(launch);
    return std::nullopt;
  });
  AddQuestion(&operators, "health", duties.health);
  AddQuestion(&operators, "metrics", duties.metrics);
  AddSlowQuestion<v1::EndRecording, v1::EndedRecording>(&operators, "trace", context, runtime, duties.end_trace);
  Add(&operators, "profile",
      [read = duties.read_profile](const std::string& argument) -> absl::StatusOr<std::optional<std::string>> {
        v1::ProfilePart part;
        if (!part.ParseFromString(argument)) return absl::InvalidArgumentError("profile: the argument does not parse");
        PW_ASSIGN_OR_RETURN(const v1::ProfilePiece piece, read(part));
        return piece.SerializeAsString();
      });
  AddQuestion(&operators, "examine", duties.examine);
  AddSlowQuestion<v1::StackQuestion, v1::Stacks>(&operators, "stacks", context, runtime, duties.stacks);
  operators.Add("combine", [](const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
    return std::make_unique<Combine>();
  });
  operators.Add("forward-order",
                [forwarder](const dataflow::OperatorContext&) -> absl::StatusOr<std::unique_ptr<dataflow::Operator>> {
                  return forwarder->MakeOperator();
                });
  return operators;
}

}  // namespace

Housekeeping::Housekeeping(WorkerContext* context, FrameChannel* frames, Timers* timers, Duties duties,
                           dataflow::Operators others, OnRefused on_refused)
    : links_(context, frames),
      operators_(MakeOperators(context, duties, &forwarder_, &runtime_, std::move(others))),
      runtime_({context->self(), context->strand(), context->clock(), timers, &links_, &operators_, std::move(on_refused)},
               {.progress = dataflow::StarKnobs()}),
      forwarder_(context, &runtime_) {}

void Housekeeping::TellFailed(const v1::LaunchFailed& failed) {
  if (!failures_.has_value()) {
    const auto there = std::make_shared<const dataflow::Placement>(dataflow::Placement::OnHost(dataflow::kControllerHost));
    auto graph = dataflow::Graph::Create({{"launch-failed", "launch-failed", "", there}}, {});
    if (graph.ok()) {
      if (auto installed = runtime_.Install(*std::move(graph)); installed.ok()) failures_ = *installed;
    }
  }
  if (!failures_.has_value()) return;  // the controller is lost, and this worker with it
  dataflow::RunOptions options;
  options.argument = failed.SerializeAsString();
  options.on_done = [](const absl::Status& status) {
    if (!status.ok()) {
      PW_LOG_WARNING << "cannot report a failed launch to the controller: " << status;
    }
  };
  runtime_.Start(*failures_, std::move(options));
}

void Housekeeping::SetCoalescing(const v1::HostConfig::Coalescing& coalescing) {
  dataflow::BatchingKnobs knobs;
  if (coalescing.max_delay_nanoseconds() > 0)
    knobs.max_delay = absl::Nanoseconds(static_cast<int64_t>(coalescing.max_delay_nanoseconds()));
  if (coalescing.max_bytes() > 0) knobs.max_bytes = coalescing.max_bytes();
  if (coalescing.max_messages() > 0) knobs.max_messages = coalescing.max_messages();
  runtime_.SetBatching(knobs);
}

v1::MetricsReport::Dataflow Housekeeping::Counters() const {
  v1::MetricsReport::Dataflow counters;
  counters.set_tuples_sent(runtime_.counters().tuples_sent);
  counters.set_reports_sent(runtime_.counters().reports_sent);
  const dataflow::BatchingCounters& batching = runtime_.batching_counters();
  counters.set_critical_messages(batching.critical_messages);
  counters.set_critical_frames(batching.critical_frames);
  counters.set_coalesced_messages(batching.coalesced_messages);
  counters.set_coalesced_frames(batching.coalesced_frames);
  return counters;
}

}  // namespace pw::worker
