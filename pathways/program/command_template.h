// Command templates: commands to a host with slots instead of "names" (the ids of arrays, transfers and launches). The controller
// makes templates when it lowers a program. For each run the host binds them: it puts ids into the slots. In sequential dispatch
// the controller binds them.
//
// A slot is a number whose last two bits are its kind. So a template is an ordinary Command and needs no message type of its own,
// and a slot takes few bytes on the wire. A slot stands for the k-th argument of the host's part of the program, or for its k-th
// result. Or it stands for the k-th name that only the run uses, of an intermediate array or a transfer (kName). 0 is no slot.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/v1/worker.pb.h"

namespace pw::program {

enum class SlotKind : uint64_t { kArgument = 1, kResult = 2, kName = 3 };

constexpr int kSlotShift = 2;
constexpr uint64_t kSlotKinds = (uint64_t{1} << kSlotShift) - 1;
constexpr uint64_t Slot(SlotKind kind, uint64_t index) { return index << kSlotShift | static_cast<uint64_t>(kind); }
constexpr uint64_t SlotIndex(uint64_t slot) { return slot >> kSlotShift; }
constexpr bool IsSlot(uint64_t name, SlotKind kind) { return (name & kSlotKinds) == static_cast<uint64_t>(kind); }
// Returns the slot of the same kind that is `count` after this one.
constexpr uint64_t SlotAfter(uint64_t slot, uint64_t count) { return slot + (count << kSlotShift); }

// The name of the dataflow operator that all nodes of a program's graph have. A node's config is its templates (v1.NodeCommands).
inline constexpr char kNodeOperator[] = "program-node";

// The values of the slots in one run.
struct Binding {
  absl::Span<const uint64_t> args;
  absl::Span<const uint64_t> results;
  uint64_t base = 0;      // name slot k gets the k-th name after this one (RequestName::kStep)
  uint64_t launches = 0;  // the launch of slot k gets launches + k
  uint64_t session = 0;
};

// Checks a template; must succeed before Bind. INVALID_ARGUMENT unless a program may contain commands of this kind, and the slots
// lie within `args` arguments and `results` results.
absl::Status CheckTemplate(const ::pathways::v1::Command& command, size_t args, size_t results);
// The numbers of arguments, results and names that a template needs: one more than its highest slots. Repeats of a Move may need more names.
struct SlotCounts {
  size_t args = 0;
  size_t results = 0;
  size_t names = 0;
};
SlotCounts CountSlots(const ::pathways::v1::Command& command);

// Replaces each slot that is a key of `renamed` by its value.
void RenameSlots(const absl::flat_hash_map<uint64_t, uint64_t>& renamed, ::pathways::v1::Command* command);

// Sets the location in the user's program, for the errors of an Execute or a Move. Empty: none.
void SetLocation(const std::string& location, ::pathways::v1::Command* command);

// Returns whether the command has an op, that is, whether a Done answers it.
bool HasOp(const ::pathways::v1::Command& command);

// Writes the names, `op` and the session into `out`, a copy of the template `command`. It writes nothing else, so one `out` can
// be bound for one run after another.
void Bind(const ::pathways::v1::Command& command, const Binding& binding, uint64_t op, ::pathways::v1::Command* out);

}  // namespace pw::program
