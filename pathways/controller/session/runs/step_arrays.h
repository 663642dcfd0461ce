// StepArrays: the arrays of runs of programs with nodes that wait for values (ProgramSteps): results, aliases, expected arrays and the
// values that a waiting node needs. ProgramSteps owns it, and gives it names: those of the step that makes an array.
//
// An array's places are those of its program's entry (WN-2). A place whose host has been lost gets no command: the array becomes an
// error. Commands do not wait in the outbox for others: the arrays have names of their own, or the run's turn has come (WN-5).
// Its owner fulfils each expected array once (WN-1).
// Strand-confined.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/controller/programs/program_entry.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/context/session_lanes.h"

namespace pw::controller {

class StepArrays {
 public:
  using Record = SessionContext::Record;

  // An array of which only the places are known. It is pending until it is fulfilled.
  struct Expected {
    Record record;
    std::map<HostId, ::pathways::v1::Command> commands;  // the Expect commands
  };

  // Both must outlive this.
  StepArrays(SessionContext* context, SessionLanes* lanes) : context_(context), fabric_(context->fabric()), lanes_(lanes) {}

  // `value`: an index into the entry's program; it determines spec and places.
  HostGroup* GroupOf(const ProgramEntry& entry, int value) const;
  // Returns a new array with one completion outstanding.
  Record New(NameScope& names, const ProgramEntry& entry, int value);
  // Returns a new array for a result of the entry's program.
  Record NewResult(NameScope& names, const ProgramEntry& entry, size_t result);
  // Returns one array with the shards of `sources`, in order.
  Record AliasOf(NameScope& names, const ProgramEntry& entry, int value, absl::Span<const Record> sources);

  // Until the array is fulfilled, no gang that reads it is granted.
  Expected Expect(const ProgramEntry& entry, int value, Record record);
  // The same for an array that a gang makes: those that read it are granted after that.
  Expected ExpectFromGang(const ProgramEntry& entry, int value, Record record) const;
  // Tells the hosts that the computation that makes the array has begun.
  void Announce(const Expected& expected);
  void Fulfil(NameScope& names, const Expected& expected, const absl::StatusOr<Record>& source);
  // Fulfils the array with another, or with its error. REQUIRES: `source` has settled.
  void FulfilWith(NameScope& names, const Expected& expected, const Record& source);
  // Returns an array with these bytes at the places of the expected one.
  Record PutBytes(NameScope& names, const Expected& expected, const Bytes& data);
  // Like PutBytes, with bytes that the hosts take from the client.
  Record PutFromLane(NameScope& names, const Expected& expected, const session::LaneResult& result);
  // Returns a guard. When its last copy is gone, the client learns that no host needs the buffer any more. Null for buffer 0.
  std::shared_ptr<void> LaneBuffer(uint64_t buffer);

  // Fetches the bytes of an array with one shard, when they exist.
  void FetchValue(NameScope& names, const ProgramEntry& entry, int value, const Record& array, ResultCallback<Bytes> done);

 private:
  // Returns the error of an array. REQUIRES: a host of the array is lost.
  absl::Status WhyGone(const Record& array) const;
  Record NewSource(NameScope& names, const Expected& expected);
  ::pathways::v1::Command PutCommand(OpId op, const Record& record, const ::pathways::v1::Command& expect, uint64_t bytes) const;
  void Send(HostId host, ::pathways::v1::Command command, std::vector<Bytes> payload = {}) const {
    fabric_->outbox().AddNow(host, std::move(command), std::move(payload));
  }

  SessionContext* const context_;
  Fabric* const fabric_;
  SessionLanes* const lanes_;
};

}  // namespace pw::controller
