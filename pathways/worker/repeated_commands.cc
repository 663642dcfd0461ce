#include "pathways/worker/repeated_commands.h"

#include <vector>

namespace pw::worker {
namespace {
namespace v1 = pathways::v1;
}  // namespace

const v1::Command* RepeatedCommands::NewPart(const v1::Command& command) {
  if (command.has_poison()) return NewPoison(command);
  return IsNew(command) ? &command : nullptr;
}

bool RepeatedCommands::IsNew(const v1::Command& command) {
  switch (command.kind_case()) {
    case v1::Command::kExecute:
      return IsNewExecute(command.execute());
    case v1::Command::kPut:
      return IsNewPut(command.put());
    case v1::Command::kChunk:
      return IsNewChunk(command.chunk());
    case v1::Command::kAbortTransfer:
      return !HadBytes(command.abort_transfer().transfer());
    case v1::Command::kFetch:
      return IsNewFetch(command.fetch());
    case v1::Command::kAlias:
      return IsNewOp(command.alias().op());
    case v1::Command::kMove:
      return IsNewOp(command.move().op());
    case v1::Command::kBitcast:
      return IsNewOp(command.bitcast().op());
    case v1::Command::kSaveTiles:
      return IsNewOp(command.save_tiles().op());
    case v1::Command::kCommitSave:
      return IsNewOp(command.commit_save().op());
    case v1::Command::kDropSave:
      return IsNewOp(command.drop_save().op());
    case v1::Command::kLoadTiles:
      return IsNewOp(command.load_tiles().op());
    case v1::Command::kFulfil:
      return IsNewOp(command.fulfil().op());
    case v1::Command::kBeginLoop:
      return IsNewOp(command.begin_loop().op());
    case v1::Command::kLoopLease:
      return IsNewOp(command.loop_lease().op());
    case v1::Command::kBeginChoice:
      return IsNewOp(command.begin_choice().op());
    case v1::Command::kExpect:
      return command.expect().under_way() || context_->had().Begin(Kind::kExpected, command.expect().array());
    default:
      return true;
  }
}

bool RepeatedCommands::IsNewOp(uint64_t op) {
  if (context_->had().Begin(Kind::kOp, op)) return true;
  context_->outbox().DoneAgain(op);
  return false;
}

bool RepeatedCommands::IsNewExecute(const v1::Execute& command) {
  HadCommands& had = context_->had();
  if (had.Begin(Kind::kOp, command.op())) {
    if (command.enqueued() != 0) had.Begin(Kind::kOp, command.enqueued());
    for (const auto& asked : command.string_results()) had.Begin(Kind::kQuery, asked.query());
    return true;
  }
  context_->outbox().DoneAgain(command.enqueued());
  for (const auto& asked : command.string_results()) AnswerQuery(asked.query());
  context_->outbox().DoneAgain(command.op());
  return false;
}

void RepeatedCommands::AnswerQuery(uint64_t query) {
  const HadCommands::Entry* const entry = context_->had().Ended(Kind::kQuery, query);
  if (entry != nullptr) {
    *context_->outbox().Add() = entry->answer->event;
  } else if (!context_->had().Has(Kind::kQuery, query)) {
    v1::Described* const described = context_->outbox().Add()->mutable_described();
    described->set_query(query);
    *described->mutable_status() = ToProto(absl::DataLossError(
        "the host has forgotten the strings that a Python function returned, because others needed the memory"));
  }
}

bool RepeatedCommands::IsNewPut(const v1::Put& command) {
  if (!IsNewOp(command.op())) return false;
  const bool in_chunks = command.payload_bytes() == 0 && command.lane_buffer() == 0;
  if (in_chunks) {
    context_->had().Begin(Kind::kTransfer, command.transfer());
    context_->had().Tie(command.op(), command.transfer());
  }
  return true;
}

bool RepeatedCommands::HadBytes(uint64_t transfer) const {
  return context_->had().Has(Kind::kTransfer, transfer) && !puts_->IsUnderWay(transfer);
}

// Chunks of a transfer that is under way go on to it: they may be new, and those that are not do no harm (staging.h).
bool RepeatedCommands::IsNewChunk(const v1::Chunk& command) {
  if (!HadBytes(command.transfer())) return true;
  if (command.has_shared()) context_->outbox().Add()->mutable_shared_taken()->add_transfers(command.transfer());
  return false;
}

bool RepeatedCommands::IsNewFetch(const v1::Fetch& command) {
  if (context_->had().Begin(Kind::kFetch, command.fetch())) return true;
  const HadCommands::Entry* const entry = context_->had().Ended(Kind::kFetch, command.fetch());
  if (entry == nullptr) return false;
  const Bytes payload = entry->answer->payload;
  *context_->outbox().Add({payload}) = entry->answer->event;
  return false;
}

const v1::Command* RepeatedCommands::NewPoison(const v1::Command& command) {
  const v1::Poison& poison = command.poison();
  std::vector<uint64_t> arrays;
  for (uint64_t array : poison.arrays()) {
    if (context_->had().Begin(Kind::kPoisoned, array)) arrays.push_back(array);
  }
  if (arrays.size() == static_cast<size_t>(poison.arrays_size())) return &command;
  if (arrays.empty()) return nullptr;
  part_ = command;
  part_.mutable_poison()->mutable_arrays()->Assign(arrays.begin(), arrays.end());
  return &part_;
}

}  // namespace pw::worker
