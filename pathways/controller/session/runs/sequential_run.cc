#include "pathways/controller/session/runs/sequential_run.h"

#include <utility>

#include "pathways/program/command_template.h"

namespace pw::controller {

std::vector<uint64_t> IdsOf(const std::vector<buffers::LogicalArray::Ref>& arrays, const std::vector<uint32_t>& picked) {
  std::vector<uint64_t> ids;
  ids.reserve(picked.size());
  for (uint32_t k : picked) ids.push_back(arrays[k]->id().v);
  return ids;
}

SequentialRun::SequentialRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> alive,
                             std::shared_ptr<const ProgramEntry> entry, Arrays args, Arrays results, Done done, Part part)
    : fabric_(fabric),
      session_(session),
      alive_(std::move(alive)),
      entry_(std::move(entry)),
      args_(std::move(args)),
      results_(std::move(results)),
      done_(std::move(done)),
      names_(std::move(names)),
      base_(names_.ReserveIds(entry_->lowered.names + 1)),
      launches_(entry_->lowered.spans ? fabric->ReserveIds(entry_->lowered.names) : 0),
      part_(std::move(part)),
      is_part_(part_.place != nullptr),
      next_(entry_->lowered.hosts.size(), 0),
      node_status_(entry_->program().nodes.size()) {
  if (!is_part_) part_.place = std::make_shared<const Gangs::Barrier>(fabric->gangs().OpenBarrier(session));
}

SequentialRun::SequentialRun(Fabric* fabric, SessionId session, NameScope names, std::weak_ptr<bool> alive,
                             std::shared_ptr<const ProgramEntry> entry, Arrays args, Arrays results, Done done)
    : SequentialRun(fabric, session, std::move(names), std::move(alive), std::move(entry), std::move(args), std::move(results),
                    std::move(done), Part()) {}

void SequentialRun::Start() {
  if (is_part_) return Next();
  dispatch::ArrayOrder::Names names;
  for (size_t i = 0; i < args_.size(); ++i)
    (entry_->arguments[i].donated ? names.changes : names.reads).push_back(args_[i]->id());
  for (const auto& result : results_) names.changes.push_back(result->id());
  fabric_->outbox().order().Begin(session_, names, [self = shared_from_this()](dispatch::ArrayOrder::Ticket ticket) {
    self->order_ = ticket;
    self->Next();
  });
}

// If all hosts of a node are lost, there is nothing to wait for.
void SequentialRun::Next() {
  const auto& nodes = entry_->program().nodes;
  while (!alive_.expired() && not_enqueued_ == 0 && node_ + 1 < static_cast<int>(nodes.size())) {
    ++node_;
    ticket_ = nodes[node_].kind == program::NodeKind::kCompute ? Submit() : Gangs::Ticket();
    for (size_t h = 0; h < next_.size(); ++h) Send(h);
  }
  if (not_enqueued_ == 0) AllSent();
}

// Returns whether the current node has an Execute on this host.
bool SequentialRun::Executes(size_t h) const {
  const dispatch::LoweredHost& part = entry_->lowered.hosts[h];
  for (size_t i = next_[h]; i < part.commands.size() && part.node_of[i] == node_; ++i) {
    if (part.commands[i].has_execute()) return true;
  }
  return false;
}

// If a host or device of the node is lost, the node fails; then it needs no gang.
Gangs::Ticket SequentialRun::Submit() {
  const program::Executable& executable = *entry_->typed->executables[entry_->program().nodes[node_].executable];
  if (!fabric_->devices().Check(executable.physical).ok()) return {};
  std::vector<HostId> hosts;
  for (size_t h = 0; h < next_.size(); ++h) {
    if (Executes(h)) hosts.push_back(entry_->lowered.hosts[h].host);
  }
  if (hosts.empty()) return {};
  std::vector<ArrayId> args;
  for (const auto& arg : args_) args.push_back(arg->id());
  Gangs::Launch launch{session_, executable.id, executable.physical, hosts, args, {}, entry_->any_donated};
  launch.within = part_.place.get();
  launch.name = executable.name;
  return fabric_->gangs().Submit(launch);
}

// Sends the current node's commands for one host.
void SequentialRun::Send(size_t h) {
  const dispatch::LoweredHost& part = entry_->lowered.hosts[h];
  if (next_[h] >= part.commands.size() || part.node_of[next_[h]] != node_) return;
  const bool there = fabric_->outbox().HasHost(part.host);
  if (!there) node_status_[node_].Update(entry_->program().At(node_, fabric_->devices().Check(entry_->devices)));
  const std::vector<uint64_t> args = IdsOf(args_, part.args), results = IdsOf(results_, part.results);
  const program::Binding binding{args, results, base_, launches_, session_.v};
  for (; next_[h] < part.commands.size() && part.node_of[next_[h]] == node_; ++next_[h]) {
    if (!there) continue;
    const ::pathways::v1::Command& command = part.commands[next_[h]];
    uint64_t op = 0;
    if (program::HasOp(command)) {
      ++left_;
      const OpId name = names_.NextOp(part.host);
      op = name.v;
      fabric_->ops().Add(
          part.host, name, nullptr,
          [self = shared_from_this(), node = node_](const absl::Status& status, std::optional<double>) {
            self->Completed(node, status);
          },
          command.has_execute() ? ticket_.gang : gang::GangId());
    }
    ::pathways::v1::Command bound = command;
    program::Bind(command, binding, op, &bound);
    if (bound.has_execute()) {
      bound.mutable_execute()->set_enqueued(AskEnqueued(part.host).v);
      bound.mutable_execute()->set_grant(ticket_.grant());
      if (fabric_->recorder().on()) bound.mutable_execute()->set_gang(ticket_.gang.v);
    }
    fabric_->outbox().AddNow(part.host, std::move(bound));
  }
}

// If the host is lost, the op completes with an error, which counts as enqueued.
OpId SequentialRun::AskEnqueued(HostId host) {
  ++not_enqueued_;
  const OpId op = names_.NextOp(host);
  fabric_->ops().Add(host, op, nullptr,
                     [self = shared_from_this()](const absl::Status&, std::optional<double>) { self->Enqueued(); });
  return op;
}

void SequentialRun::Enqueued() {
  if (--not_enqueued_ == 0) Next();
}

void SequentialRun::Completed(int node, const absl::Status& status) {
  // A host's own error names the node already; the error of a lost host does not.
  const bool host_lost = status.GetPayload(kHostLost).has_value();
  node_status_[node].Update(host_lost ? entry_->program().At(node, status) : status);
  if (--left_ == 0 && all_sent_) Finish();
}

void SequentialRun::AllSent() {
  all_sent_ = true;
  if (!is_part_) {
    fabric_->outbox().order().End(order_);
    fabric_->gangs().CloseBarrier(*part_.place);  // the commands that may be granted now have been sent
  }
  if (part_.sent) std::exchange(part_.sent, nullptr)();
  if (left_ == 0) Finish();
}

void SequentialRun::Finish() {
  const dispatch::LoweredProgram& lowered = entry_->lowered;
  absl::Status first;
  for (const absl::Status& status : node_status_) first.Update(status);
  for (size_t r = 0; r < results_.size(); ++r) {
    absl::Status status = node_status_[lowered.result_makers[r]];
    status.Update(node_status_[entry_->program().results[r]]);
    results_[r]->OnDone(status);
  }
  results_.clear();
  args_.clear();
  if (done_) std::exchange(done_, nullptr)(first);
}

}  // namespace pw::controller
