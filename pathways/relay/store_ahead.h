// StoreAhead: one array of a client on its way to the controller while the client still writes it to the file that it leaves for us
// (bulk/growing_file.h). The stock client says that it makes an array before it has written the file, and says when it has: sending meanwhile
// takes the writing out of the time of a transfer.
//
// It is no promise. What is not as it should be (the file is of another size, stands still, becomes shorter; the controller takes other bytes at
// the moment) only withdraws it, and then the file goes as every file does once it is whole: what is wrong with it is said there.
//
//   watching ── the file grows ──► asked ── ready ──► sending ── all is sent, and the client says it is whole ──► sent ── done ──► over
//       │                            │                  │
//       └────────► over              └── withdrawn ◄────┘        (the controller's answer ends it: then its handle is free again)
//
// The file is read, into memory that stays in the processor's caches until it is sent. Touching a mapping of a file that is being written costs more
// (a fault for each page), and sendfile, which copies nothing here, took as long.
//
// The controller may answer before anything has been sent (the array is too large for it): the client hears that when it has written.
//
// Invariants:
//   AH-1  a client that says that its file is whole hears exactly one of `done` and `otherwise`, and `otherwise` only when the controller has
//         nothing of the array any more
//   AH-2  where the client says nothing and the file does not grow, the controller's memory is free again after kPatience
//   AH-3  read and not yet sent is no more than the line lets wait, and one piece
// The line's thread. The line is given to each call and may be another's property.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "pathways/bulk/growing_file.h"
#include "pathways/bulk/line.h"

namespace pw::relay {

class StoreAhead {
 public:
  // Smaller arrays are written before much of them could be sent.
  static constexpr int64_t kWorthwhileBytes = 16 << 20;
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  struct Finish {
    absl::AnyInvocable<void(absl::Status) &&> done;
    absl::AnyInvocable<void() &&> otherwise;
  };

  StoreAhead(uint64_t session, uint64_t handle, bulk::GrowingFile file, absl::Time now)
      : session_(session), handle_(handle), file_(std::move(file)), moved_(now) {}

  uint64_t session() const { return session_; }
  uint64_t handle() const { return handle_; }
  bool over() const { return state_ == State::kOver; }

  // Sends what there is. Called every millisecond or so. `call`: its number.
  void Look(bulk::Line& line, uint64_t call, absl::Time now);
  // The controller's words.
  void Ready(bulk::Line& line, uint64_t call);
  void Ended(const absl::Status& status);
  // The client's: it has written so many bytes. Once.
  void Whole(bulk::Line& line, uint64_t call, int64_t bytes, Finish finish);
  // The session is over.
  void Drop(bulk::Line& line, uint64_t call);
  // There is no line any more.
  void Lose();

 private:
  enum class State { kWatching, kAsked, kSending, kSent, kWithdrawn, kAnswered, kOver };

  void Ask(bulk::Line& line, uint64_t call);
  absl::Status SendPieces(bulk::Line& line, uint64_t call, int64_t grown);
  void Withdraw(bulk::Line& line, uint64_t call);
  void Answer();

  const uint64_t session_, handle_;
  bulk::GrowingFile file_;
  State state_ = State::kWatching;
  bool ready_ = false;  // the controller takes parts
  int64_t sent_ = 0;
  absl::Time moved_;  // when something was sent last, or could not be
  std::optional<Finish> finish_;
  absl::Status answer_;  // kAnswered
};

}  // namespace pw::relay
