// HadCommands: the names of the commands that this host has had, with their answers. A second controller carries out a request that the
// first one may have carried out, and sends the same commands under the same names (worker.proto, Repeats). The host recognizes them by
// this table, does none of them twice, and answers as it did before.
//
// Only names that a request has given are noted: no controller can derive own names again (base/request_name.h).
//
// A watermark for each session would not do. A session's requests come in their order, but work that waits for values sends its commands
// later, between those of newer requests, and another controller may mix them in another way.
//
// Memory. There are as many entries as commands of unsettled requests (Settle). Their answers are small, except fetched shards and strings.
// Those take at most kMostKeptBytes; the oldest ones are forgotten, with their names.
//
// Invariants:
//   HD-1  Begin returns true once for each name until its request is settled, its session ends, or it is forgotten
//   HD-2  an entry has ended once, with the first answer that was given
// Pure. Lives on the worker's strand.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "pathways/base/ids.h"
#include "pathways/base/memory/bytes.h"
#include "pathways/v1/worker.pb.h"

namespace pw::worker {

class HadCommands {
 public:
  static constexpr size_t kMostKeptBytes = size_t{16} << 20;

  // Kinds of names. kExpected, kPoisoned: an array; kQuery: a question of Execute.string_results.
  enum class Kind : uint8_t { kOp, kFetch, kQuery, kTransfer, kExpected, kPoisoned };

  struct Answer {
    pathways::v1::Event event;
    Bytes payload = {};
  };
  struct Entry {
    bool ended = false;
    float device_microseconds = 0;
    std::optional<double> timed = {};     // the time of a command that asked for it
    std::unique_ptr<Answer> answer = {};  // null: an op that is done, with the times above
    std::optional<uint64_t> large = {};   // its place in large_
    uint64_t transfer = 0;                // of a Put whose bytes come in chunks
  };

  // Notes a name, unless its session has ended. Returns false if it is noted already.
  bool Begin(Kind kind, uint64_t name);
  bool Has(Kind kind, uint64_t name) const { return Find(kind, name) != nullptr; }
  // Returns the entry if the command has ended; null if it has not, or is not known.
  const Entry* Ended(Kind kind, uint64_t name) const;

  // These note how a command ended. They do nothing if its name is not noted, or has ended.
  // Done: the op is done, with the poisoned arrays of earlier calls of AddPoisoned.
  void Done(uint64_t op, double device_microseconds, std::optional<double> timed = std::nullopt);
  void Failed(const pathways::v1::Done::Failed& failed);
  void AddPoisoned(const pathways::v1::Done::Poisoned& poisoned);
  // Keeps this answer, which is given again when the command comes again.
  void Keep(Kind kind, uint64_t name, const pathways::v1::Event& event, Bytes payload = {});
  // Keeps no answer: the command is new when it comes again.
  void Forget(Kind kind, uint64_t name);

  // Notes the transfer whose bytes the op awaits.
  void Tie(uint64_t op, uint64_t transfer);

  // Returns the sessions that have names here.
  std::vector<SessionId> sessions() const;
  // Forgets all names but those of these sessions' commands that have ended. A command that has not ended is new when it comes again, as is a fetch
  // whose answer has gone on a lane, and may not have arrived there.
  void KeepEnded(const std::set<SessionId>& sessions);

  // Forgets the names of settled requests, or of a session that has ended.
  void Settle(const pathways::v1::Settled& settled);
  void End(SessionId session);
  bool HasEnded(SessionId session) const { return ended_.contains(session); }

  int64_t names() const { return names_; }
  size_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Key {
    uint64_t request = 0;
    uint64_t name = 0;
    Kind kind = Kind::kOp;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Entries = std::map<Key, Entry>;

  // Returns the session and the key of a name that a request has given.
  static std::optional<std::pair<SessionId, Key>> Read(Kind kind, uint64_t name);
  static size_t LargeBytes(const Answer& answer);
  Entry* Find(Kind kind, uint64_t name) const;
  Entry* FindUnderWay(Kind kind, uint64_t name) const;
  Answer& AnswerOf(Entry& entry);
  Entries::iterator Erase(Entries& entries, Entries::iterator at);
  void Erase(Entries& entries, uint64_t first, uint64_t last);

  absl::flat_hash_map<SessionId, Entries> sessions_;
  absl::flat_hash_set<SessionId> ended_;
  int64_t names_ = 0;
  std::map<uint64_t, std::pair<SessionId, Key>> large_;  // answers that count against the limit, the oldest first
  uint64_t next_large_ = 0;
  size_t kept_bytes_ = 0;  // of these
};

}  // namespace pw::worker
