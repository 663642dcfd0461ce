#include "pathways/program/command_template.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "pathways/base/request_name.h"

namespace pw::program {
namespace {

using ::pathways::v1::Alias;
using ::pathways::v1::Command;
using ::pathways::v1::Move;

uint64_t Fill(uint64_t name, const Binding& binding) {
  const uint64_t index = SlotIndex(name);
  switch (static_cast<SlotKind>(name & kSlotKinds)) {
    case SlotKind::kArgument:
      return binding.args[index];
    case SlotKind::kResult:
      return binding.results[index];
    case SlotKind::kName:
      return binding.base + index * RequestName::kStep;
  }
  return name;
}

using Names = google::protobuf::RepeatedField<uint64_t>;

template <class F>
void MapAll(const Names& from, F f, Names* to) {
  for (int i = 0; i < from.size(); ++i) to->Set(i, f(from.Get(i)));
}

template <class F>
void MapMove(const Move& from, F f, Move* to) {
  for (int i = 0; i < from.sends_size(); ++i) {
    to->mutable_sends(i)->set_transfer(f(from.sends(i).transfer()));
    to->mutable_sends(i)->set_array(f(from.sends(i).array()));
  }
  for (int i = 0; i < from.receives_size(); ++i) {
    const Move::Receive& receive = from.receives(i);
    Move::Receive* out = to->mutable_receives(i);
    out->set_array(f(receive.array()));
    for (int p = 0; p < receive.pieces_size(); ++p) {
      out->mutable_pieces(p)->set_source_array(f(receive.pieces(p).source_array()));
      out->mutable_pieces(p)->set_transfer(f(receive.pieces(p).transfer()));
    }
  }
}

// Sets every name in `to`, a copy of `from`, to f(the name in `from`).
template <class F>
void MapNames(const Command& from, F f, Command* to) {
  switch (from.kind_case()) {
    case Command::kExecute:
      if (from.execute().launch() != 0) to->mutable_execute()->set_launch(f(from.execute().launch()));
      MapAll(from.execute().args(), f, to->mutable_execute()->mutable_args());
      return MapAll(from.execute().results(), f, to->mutable_execute()->mutable_results());
    case Command::kMove:
      return MapMove(from.move(), f, to->mutable_move());
    case Command::kAlias:
      for (int i = 0; i < from.alias().items_size(); ++i) {
        Alias::Item* item = to->mutable_alias()->mutable_items(i);
        item->set_array(f(from.alias().items(i).array()));
        item->set_source_array(f(from.alias().items(i).source_array()));
      }
      return;
    case Command::kRelease:
      return MapAll(from.release().arrays(), f, to->mutable_release()->mutable_arrays());
    default:
      return;
  }
}

template <class M>
void SetOwner(uint64_t op, uint64_t session, M* message) {
  message->set_op(op);
  message->set_session(session);
}

}  // namespace

void SetLocation(const std::string& location, Command* command) {
  if (command->has_execute()) command->mutable_execute()->set_location(location);
  if (command->has_move()) command->mutable_move()->set_location(location);
}

bool HasOp(const Command& command) { return !command.has_release(); }

SlotCounts CountSlots(const Command& command) {
  SlotCounts counts;
  Command copy = command;
  MapNames(
      command,
      [&](uint64_t name) {
        if (IsSlot(name, SlotKind::kArgument)) counts.args = std::max<size_t>(counts.args, SlotIndex(name) + 1);
        if (IsSlot(name, SlotKind::kResult)) counts.results = std::max<size_t>(counts.results, SlotIndex(name) + 1);
        if (IsSlot(name, SlotKind::kName)) counts.names = std::max<size_t>(counts.names, SlotIndex(name) + 1);
        return name;
      },
      &copy);
  return counts;
}

void RenameSlots(const absl::flat_hash_map<uint64_t, uint64_t>& renamed, Command* command) {
  auto rename = [&](uint64_t name) {
    auto it = renamed.find(name);
    return it == renamed.end() ? name : it->second;
  };
  MapNames(*command, rename, command);
}

absl::Status CheckTemplate(const Command& command, size_t args, size_t results) {
  if (!command.has_execute() && !command.has_move() && !command.has_alias() && !command.has_release()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a command of kind ", static_cast<int>(command.kind_case()), " cannot be part of a program"));
  }
  const SlotCounts counts = CountSlots(command);
  if (counts.args <= args && counts.results <= results) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a program's commands name ", counts.args, " arguments and ", counts.results,
                                                 " results; the run has ", args, " and ", results));
}

void Bind(const Command& command, const Binding& binding, uint64_t op, Command* out) {
  MapNames(command, [&](uint64_t name) { return Fill(name, binding); }, out);
  if (command.has_execute()) SetOwner(op, binding.session, out->mutable_execute());
  // A launch over several hosts is numbered by the order of their island, not named by a request.
  if (const uint64_t launch = command.execute().launch(); launch != 0)
    out->mutable_execute()->set_launch(binding.launches + SlotIndex(launch));
  if (command.has_move()) SetOwner(op, binding.session, out->mutable_move());
  if (command.has_alias()) SetOwner(op, binding.session, out->mutable_alias());
}

}  // namespace pw::program
