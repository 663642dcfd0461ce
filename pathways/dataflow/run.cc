#include "pathways/dataflow/run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/log.h"
#include "pathways/base/status_macros.h"

namespace pw::dataflow {
namespace {

// The approximate overhead of a queued tuple beside its bytes.
constexpr size_t kTupleOverhead = 64;

}  // namespace

ShardRef Shard::ref() const { return {run_->id_, run_->plan_->nodes()[slot_].id, index_}; }
const GraphPart& Shard::graph() const { return run_->plan_->part(); }
const std::string& Shard::argument() const { return run_->argument_; }
const std::vector<EdgeId>& Shard::outputs() const { return graph().outputs(run_->plan_->nodes()[slot_].id); }
void Shard::Send(EdgeId edge, uint32_t destination, Tuple tuple) { run_->SendFrom(*this, edge, destination, std::move(tuple)); }
bool Shard::CanSend(EdgeId edge, uint32_t destination) { return run_->CanSendFrom(*this, edge, destination); }
void Shard::Finish(const absl::Status& status) { run_->FinishShard(*this, status); }

Run::Run(RunId id, std::shared_ptr<const HostPlan> plan, std::string argument, Courier* courier)
    : id_(id), plan_(std::move(plan)), argument_(std::move(argument)), courier_(courier), end_(&plan_->end()) {
  edges_.reserve(plan_->edges().size());
  for (const HostPlan::LocalEdge& edge : plan_->edges()) edges_.emplace_back(&edge.plan);
  nodes_.resize(plan_->nodes().size());
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    const HostPlan::LocalNode& local = plan_->nodes()[n];
    nodes_[n].shards.resize(local.shards.size());
    for (size_t i = 0; i < local.shards.size(); ++i) {
      Shard& shard = nodes_[n].shards[i];
      shard.run_ = this;
      shard.slot_ = n;
      shard.index_ = local.shards[i];
      shard.open_inputs_ = static_cast<uint32_t>(plan_->part().inputs(local.id).size());
    }
    unfinished_shards_ += static_cast<uint32_t>(local.shards.size());
  }
}

Run::~Run() {
  nodes_.clear();  // operators first: their destructors may still use the run
  courier_->Unqueued(queued_bytes_);
}

absl::Status Run::Start(const Operators& operators) {
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    const HostPlan::LocalNode& local = plan_->nodes()[n];
    PW_ASSIGN_OR_RETURN(nodes_[n].op, operators.Make({plan_->self(), id_, plan_->part(), local.id, local.shards, argument_}));
  }
  for (NodeState& node : nodes_) {
    for (Shard& shard : node.shards) StartShard(node, shard);
  }
  starting_ = false;
  EndIfDone();
  return absl::OkStatus();
}

void Run::StartShard(NodeState& node, Shard& shard) {
  node.op->OnStart(shard);
  if (shard.open_inputs_ == 0 && !shard.finished_) node.op->OnInputsClosed(shard);
}

Shard& Run::ShardAt(NodeState& node, const std::vector<uint32_t>& shards, uint32_t shard) {
  return node.shards[std::lower_bound(shards.begin(), shards.end(), shard) - shards.begin()];
}

Shard* Run::Find(NodeId id, uint32_t shard) {
  const uint32_t slot = plan_->SlotOf(id);
  if (slot == HostPlan::kNone) return nullptr;
  const std::vector<uint32_t>& shards = plan_->nodes()[slot].shards;
  if (!std::binary_search(shards.begin(), shards.end(), shard)) return nullptr;
  return &ShardAt(nodes_[slot], shards, shard);
}

void Run::SendFrom(Shard& shard, EdgeId edge_id, uint32_t destination, Tuple tuple) {
  PW_CHECK(!shard.finished_);
  const uint32_t slot = plan_->SlotOf(edge_id);
  PW_CHECK(slot != HostPlan::kNone);
  if (absl::Status status = CheckSend(shard, slot, destination); !status.ok()) {
    if (shard.send_error_.ok()) shard.send_error_ = status;
    return;
  }
  Put(slot, edges_[slot].Sent(shard.index_, destination), destination, std::move(tuple));
}

absl::Status Run::CheckSend(const Shard& shard, uint32_t slot, uint32_t destination) const {
  const EdgePlan& plan = plan_->edges()[slot].plan;
  const Edge& edge = EdgeAt(slot);
  if (edges_[slot].MaySend(shard.index_, destination)) return courier_->CheckRoom(plan.to->HostOf(destination), edge.critical);
  const bool again = plan.Allows(shard.index_, destination);
  return absl::InvalidArgumentError(absl::StrCat("shard ", shard.index_, " of '", plan_->part().node(edge.from).name,
                                                 "' may not send ", again ? "again " : "", "to shard ", destination, " on a ",
                                                 edge.single ? "single " : "", ToString(edge.kind), " edge"));
}

void Run::Put(uint32_t slot, uint64_t sequence, uint32_t destination, Tuple tuple) {
  const HostPlan::LocalEdge& edge = plan_->edges()[slot];
  const HostId to = edge.plan.to->HostOf(destination);
  if (to == plan_->self()) return Push({true, slot, destination, sequence, std::move(tuple), {}});
  courier_->SendTuple(to, EdgeAt(slot).critical, {id_, edge.id, sequence, destination, std::move(tuple)});
}

bool Run::CanSendFrom(Shard& shard, EdgeId edge_id, uint32_t destination) {
  const uint32_t slot = plan_->SlotOf(edge_id);
  PW_CHECK(slot != HostPlan::kNone);
  const EdgePlan& plan = plan_->edges()[slot].plan;
  // If the edge does not allow it, Send reports the error.
  if (!plan.Allows(shard.index_, destination)) return true;
  if (courier_->HasRoom(plan.to->HostOf(destination), EdgeAt(slot).critical)) return true;
  shard.waiting_ = true;
  courier_->Waiting(id_);
  return false;
}

void Run::Writable() {
  for (NodeState& node : nodes_) {
    for (Shard& shard : node.shards) {
      if (std::exchange(shard.waiting_, false) && !shard.finished_) node.op->OnWritable(shard);
    }
  }
}

void Run::FinishShard(Shard& shard, const absl::Status& status) {
  PW_CHECK(!shard.finished_);
  shard.finished_ = true;
  const absl::Status final = EndOf(shard, status);
  bool carried = final.ok();
  for (EdgeId edge : shard.outputs()) {
    const uint32_t slot = plan_->SlotOf(edge);
    EdgeProgress::Effects effects;
    edges_[slot].SourceDone(shard.index_, final, &effects);
    carried = carried || !EdgeAt(slot).single || !effects.substitutes.empty();
    Apply(slot, effects);
  }
  if (!carried && error_.ok()) error_ = final;
  shard.send_error_ = absl::OkStatus();
  --unfinished_shards_;
  EndIfDone();
}

// Returns the status with which a shard ends that finishes with `status`.
absl::Status Run::EndOf(const Shard& shard, const absl::Status& status) const {
  if (!status.ok() || !shard.send_error_.ok()) return status.ok() ? shard.send_error_ : status;
  for (EdgeId edge : shard.outputs()) {
    if (edges_[plan_->SlotOf(edge)].HasSentAll(shard.index_)) continue;
    const Edge& e = plan_->part().edge(edge);
    return absl::InternalError(absl::StrCat("shard ", shard.index_, " of '", plan_->part().node(e.from).name,
                                            "' ended without sending a tuple to each shard of '", plan_->part().node(e.to).name,
                                            "', as a single edge demands"));
  }
  return absl::OkStatus();
}

absl::Status Run::OnTuple(HostId from, TupleMessage message) {
  if (HasLost(from)) return absl::OkStatus();
  const uint32_t slot = plan_->SlotOf(message.edge);
  if (slot == HostPlan::kNone)
    return absl::InvalidArgumentError(absl::StrCat(ToString(from), " sent a tuple of an edge that is not here"));
  EdgeProgress::Effects effects;
  PW_ASSIGN_OR_RETURN(const bool fresh,
                      edges_[slot].Received(from, message.sequence, message.shard, message.tuple.error, &effects));
  if (fresh) Deliver(slot, message.shard, std::move(message.tuple));
  Apply(slot, effects);
  EndIfDone();
  return absl::OkStatus();
}

absl::Status Run::OnReport(HostId from, const ReportMessage& message) {
  if (HasLost(from)) return absl::OkStatus();
  EdgeProgress::Effects effects;
  if (message.edge == plan_->end_edge()) {
    PW_RETURN_IF_ERROR(end_.OnReport(from, message.report, &effects));
    ApplyEnd(effects);
    return absl::OkStatus();
  }
  const uint32_t slot = plan_->SlotOf(message.edge);
  if (slot == HostPlan::kNone)
    return absl::InvalidArgumentError(absl::StrCat(ToString(from), " reported on an edge that is not here"));
  PW_RETURN_IF_ERROR(edges_[slot].OnReport(from, message.report, &effects));
  Apply(slot, effects);
  EndIfDone();
  return absl::OkStatus();
}

void Run::LoseHost(HostId host, const absl::Status& status) {
  if (HasLost(host)) return;
  lost_.push_back(host);
  for (uint32_t slot = 0; slot < edges_.size(); ++slot) {
    EdgeProgress::Effects effects;
    edges_[slot].LoseHost(host, status, &effects);
    Apply(slot, effects);
  }
  EdgeProgress::Effects effects;
  const bool unhandled = plan_->coordinator() == plan_->self() && plan_->EndsOn(host);  // others do not decide the run's status
  end_.LoseHost(host, unhandled ? status : absl::OkStatus(), &effects);
  ApplyEnd(effects);
  EndIfDone();
}

void Run::Push(Event event) {
  const size_t bytes = event.is_tuple ? event.tuple.size() + kTupleOverhead : 0;
  queued_bytes_ += bytes;
  queue_.push_back(std::move(event));
  courier_->Queued(id_, bytes);
}

bool Run::Step() {
  if (queue_.empty()) return false;
  Event event = std::move(queue_.front());
  queue_.pop_front();
  if (!event.is_tuple) {
    Close(event.edge_slot, event.shard, event.status);
    EndIfDone();
    return true;
  }
  const size_t bytes = event.tuple.size() + kTupleOverhead;
  queued_bytes_ -= bytes;
  courier_->Unqueued(bytes);
  EdgeProgress::Effects effects;
  const absl::StatusOr<bool> fresh =
      edges_[event.edge_slot].Received(plan_->self(), event.sequence, event.shard, event.tuple.error, &effects);
  PW_CHECK(fresh.ok());
  Deliver(event.edge_slot, event.shard, std::move(event.tuple));
  Apply(event.edge_slot, effects);
  EndIfDone();
  return true;
}

void Run::Deliver(uint32_t edge_slot, uint32_t index, Tuple tuple) {
  const uint32_t slot = plan_->SlotOf(EdgeAt(edge_slot).to);
  Shard& shard = ShardAt(nodes_[slot], plan_->nodes()[slot].shards, index);
  if (!tuple.error.ok()) {
    // A single edge closes with the error.
    if (!EdgeAt(edge_slot).single) AddPoison(shard, plan_->edges()[edge_slot].id, tuple.error);
    return;
  }
  if (!shard.finished_) nodes_[slot].op->OnTuple(shard, plan_->edges()[edge_slot].id, std::move(tuple));
}

void Run::AddPoison(Shard& shard, EdgeId edge, const absl::Status& status) {
  if (!shard.poison_.ok() && shard.poison_edge_ <= edge) return;
  shard.poison_ = status;
  shard.poison_edge_ = edge;
}

void Run::Close(uint32_t edge_slot, uint32_t index, const absl::Status& status) {
  const uint32_t slot = plan_->SlotOf(EdgeAt(edge_slot).to);
  NodeState& node = nodes_[slot];
  Shard& shard = ShardAt(node, plan_->nodes()[slot].shards, index);
  const EdgeId edge = plan_->edges()[edge_slot].id;
  if (!status.ok()) AddPoison(shard, edge, status);
  --shard.open_inputs_;
  if (!shard.finished_) node.op->OnInputClosed(shard, edge, status);
  if (shard.open_inputs_ == 0) InputsClosed(node, shard);
}

void Run::InputsClosed(NodeState& node, Shard& shard) {
  if (shard.finished_) return;
  if (shard.poison_.ok()) {
    node.op->OnInputsClosed(shard);
  } else {
    node.op->OnPoisoned(shard, shard.poison_);
  }
}

void Run::Apply(uint32_t edge_slot, const EdgeProgress::Effects& effects) {
  const HostPlan::LocalEdge& edge = plan_->edges()[edge_slot];
  for (const auto& outgoing : effects.reports)
    courier_->SendReport(outgoing.to, EdgeAt(edge_slot).critical, {id_, edge.id, outgoing.report});
  for (const auto& [destination, sequence, error] : effects.substitutes) Put(edge_slot, sequence, destination, {{}, error});
  for (const auto& closed : effects.closed) Push({false, edge_slot, closed.shard, 0, {}, closed.status});
}

void Run::ApplyEnd(const EdgeProgress::Effects& effects) {
  for (const auto& outgoing : effects.reports) courier_->SendReport(outgoing.to, true, {id_, plan_->end_edge(), outgoing.report});
  for (const auto& closed : effects.closed) outcome_ = closed.status;
}

void Run::EndIfDone() {
  if (starting_ || end_reported_ || unfinished_shards_ > 0 || plan_->end().sources.empty()) return;
  // Queued closings are for shards that have finished already, but they must be handled before the run is over here.
  if (!queue_.empty()) return;
  for (const EdgeProgress& edge : edges_) {
    if (!edge.finished()) return;
  }
  end_reported_ = true;
  EdgeProgress::Effects effects;
  end_.SourceDone(plan_->end().sources[0], error_, &effects);
  ApplyEnd(effects);
}

}  // namespace pw::dataflow
