// RepeatedCommands: tells which commands of the controller are new, and answers those that this host has had (worker.proto, Repeats). It notes
// the names of the new ones. Runs of programs come as dataflow frames: ProgramNodes recognizes them.
//
// Lives on the worker's strand.
#pragma once

#include "pathways/v1/worker.pb.h"
#include "pathways/worker/store/context.h"
#include "pathways/worker/transfer/puts.h"

namespace pw::worker {

class RepeatedCommands {
 public:
  // Both outlive this.
  RepeatedCommands(WorkerContext* context, const Puts* puts) : context_(context), puts_(puts) {}

  // Returns the command if it is new, or what is new in it; valid until the next call. Null if nothing is: its answer has then been given
  // again, or comes when the command ends.
  const pathways::v1::Command* NewPart(const pathways::v1::Command& command);

 private:
  using Kind = HadCommands::Kind;
  bool IsNew(const pathways::v1::Command& command);
  bool IsNewOp(uint64_t op);
  bool IsNewExecute(const pathways::v1::Execute& command);
  bool IsNewPut(const pathways::v1::Put& command);
  bool IsNewFetch(const pathways::v1::Fetch& command);
  void AnswerQuery(uint64_t query);
  bool IsNewChunk(const pathways::v1::Chunk& command);
  // Returns whether a Put has had this transfer's bytes, or failed.
  bool HadBytes(uint64_t transfer) const;
  const pathways::v1::Command* NewPoison(const pathways::v1::Command& command);

  WorkerContext* const context_;
  const Puts* const puts_;
  pathways::v1::Command part_;  // that NewPart has returned
};

}  // namespace pw::worker
