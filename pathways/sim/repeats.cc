#include "pathways/sim/repeats.h"

#include <algorithm>

#include "pathways/base/request_name.h"
#include "pathways/program/command_template.h"
#include "pathways/v1/dataflow.pb.h"

namespace pw::sim {
namespace {

namespace v1 = ::pathways::v1;

constexpr size_t kMostSent = 256;  // on each link

// Returns the name by which the host recognizes the command, of an object or an op; nullopt if it is never repeated.
std::optional<uint64_t> NameOf(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kExecute:
      return command.execute().op();
    case v1::Command::kPut:
      return command.put().op();
    case v1::Command::kChunk:
      return command.chunk().transfer();
    case v1::Command::kAbortTransfer:
      return command.abort_transfer().transfer();
    case v1::Command::kFetch:
      return command.fetch().fetch();
    case v1::Command::kAlias:
      return command.alias().op();
    case v1::Command::kMove:
      return command.move().op();
    case v1::Command::kBitcast:
      return command.bitcast().op();
    case v1::Command::kFulfil:
      return command.fulfil().op();
    case v1::Command::kExpect:
      return command.expect().array();
    case v1::Command::kPoison:
      return command.poison().arrays_size() > 0 ? command.poison().arrays(0) : 0;
    default:
      return std::nullopt;
  }
}

uint64_t PayloadBytes(const v1::Command& command) {
  if (command.has_put()) return command.put().payload_bytes();
  if (command.has_chunk()) return command.chunk().payload_bytes();
  if (command.has_dataflow()) return command.dataflow().payload_bytes();
  if (command.has_compile()) return command.compile().program_bytes() + command.compile().options_bytes();
  uint64_t sum = 0;
  for (uint64_t bytes : command.host_reply().result_bytes()) sum += bytes;
  return sum;
}

bool IsSettled(const v1::Settled& settled, uint64_t request) {
  if (request <= settled.up_to()) return true;
  for (int i = 0; i + 1 < settled.others_size(); i += 2) {
    if (request >= settled.others(i) && request <= settled.others(i + 1)) return true;
  }
  return false;
}

Bytes Whole(const std::vector<Bytes>& pieces) {
  std::string all;
  for (const Bytes& piece : pieces) all.append(piece.view());
  return Bytes::FromString(std::move(all));
}

}  // namespace

void Repeats::OnFrame(const Process& controller, const Process& host, std::string* header, std::vector<Bytes>* payload) {
  v1::ToWorker frame;
  if (one_in_ == 0 || !frame.ParseFromString(*header)) return;
  Link& link = links_[{controller.name(), host.name()}];
  for (const v1::Command& command : frame.commands()) {
    if (command.has_welcome()) link = Link();
  }
  if (frame.beside() || frame.bulk()) return;
  for (const v1::Settled& settled : frame.settled()) Forget(link, settled);
  const Bytes whole = Whole(*payload);
  uint64_t offset = 0;
  for (const v1::Command& command : frame.commands()) {
    const uint64_t bytes = PayloadBytes(command);
    Note(link, command, bytes == 0 ? Bytes() : whole.Slice(offset, bytes));
    offset += bytes;
  }
  if (world_->Below(one_in_) != 0) return;
  Repeat(link, &frame, payload);
  *header = frame.SerializeAsString();
}

void Repeats::Note(Link& link, const v1::Command& command, Bytes payload) {
  if (command.has_dataflow()) return NoteRuns(link, command.dataflow());
  if (command.has_grant()) {
    link.sent.push_back({SessionId(), std::nullopt, command});
  } else if (command.has_release() && command.release().arrays_size() > 0) {
    link.sent.push_back({SessionOfName(command.release().arrays(0)), std::nullopt, command});
  } else if (const std::optional<uint64_t> name = NameOf(command)) {
    Add(link, *name, command, std::move(payload));
  }
  if (link.sent.size() > kMostSent) link.sent.pop_front();
}

void Repeats::Add(Link& link, uint64_t name, v1::Command command, Bytes payload) {
  const std::optional<RequestName> read = RequestName::Read(name);
  if (!read.has_value() || read->own) return;  // no controller names it again
  const auto settled = link.settled.find(read->session);
  if (settled != link.settled.end() && IsSettled(settled->second, read->request)) ++after_settled_;
  link.sent.push_back({read->session, read->request, std::move(command), std::move(payload)});
}

void Repeats::NoteRuns(Link& link, const v1::DataflowFrame& dataflow) {
  v1::dataflow::Frame frame;
  if (!frame.ParseFromString(dataflow.header())) return;
  for (const auto& install : frame.installs()) {
    const auto& operators = install.part().operators();
    if (std::find(operators.begin(), operators.end(), program::kNodeOperator) != operators.end())
      link.programs.insert(install.graph());
  }
  for (const auto& start : frame.starts()) {
    v1::ProgramRun run;
    if (!link.programs.contains(start.graph()) || !run.ParseFromString(start.argument())) continue;
    v1::dataflow::Frame again;
    again.set_critical(frame.critical());
    *again.add_starts() = start;
    again.mutable_starts(0)->clear_oldest_live();
    again.mutable_starts(0)->set_run(link.next_run++);
    v1::Command command;
    command.mutable_dataflow()->set_header(again.SerializeAsString());
    Add(link, run.op(), std::move(command));
  }
  for (uint64_t graph : frame.uninstalls()) link.programs.erase(graph);
}

void Repeats::Forget(Link& link, const v1::Settled& settled) {
  link.settled[SessionId(settled.session())] = settled;
  std::erase_if(link.sent, [&](const Sent& one) {
    return one.session.v == settled.session() && one.request.has_value() && IsSettled(settled, *one.request);
  });
}

void Repeats::Repeat(Link& link, v1::ToWorker* frame, std::vector<Bytes>* payload) {
  if (link.sent.empty()) return;
  const Sent& one = link.sent[world_->Below(link.sent.size())];
  if (one.session != SessionId() && !is_open_(one.session)) return;
  *frame->add_commands() = one.command;
  if (!one.payload.empty()) payload->push_back(one.payload);
  ++repeated_;
}

}  // namespace pw::sim
