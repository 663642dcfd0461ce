// Command templates: commands to a host in which arrays and transfers are not named but left open, as slots.
//
// A slot is a number with a kind in its top byte, so a template is an ordinary Command and no message is needed twice. Kinds:
// the k-th argument and the k-th result of the host's part, and the k-th name of the run. Numbers without a kind stand for
// themselves (0: nothing).
//
// Pure. The controller makes templates when it lowers a program; whoever runs them binds them.
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pathways/v1/worker.pb.h"

namespace pw::program {

enum class SlotKind : uint64_t { kArgument = 1, kResult = 2, kName = 3 };

constexpr int kSlotShift = 56;
constexpr uint64_t Slot(SlotKind kind, uint64_t index) { return (static_cast<uint64_t>(kind) << kSlotShift) | index; }
constexpr uint64_t SlotIndex(uint64_t slot) { return slot & ((uint64_t{1} << kSlotShift) - 1); }
constexpr bool IsSlot(uint64_t name, SlotKind kind) { return name >> kSlotShift == static_cast<uint64_t>(kind); }

// What one run puts into the slots.
struct Binding {
  absl::Span<const uint64_t> args;
  absl::Span<const uint64_t> results;
  uint64_t base = 0;  // name slot k is base + k
  uint64_t session = 0;
};

// INVALID_ARGUMENT unless the command is of a kind that a program may hold, and its slots lie within so many arguments and
// results. REQUIRED of a template before Bind.
absl::Status CheckTemplate(const ::pathways::v1::Command& command, size_t args, size_t results);
// The number of arguments and results that a template needs: one more than its highest slots.
struct SlotCounts {
  size_t args = 0;
  size_t results = 0;
};
SlotCounts CountSlots(const ::pathways::v1::Command& command);

// Each of these slots becomes another.
void RenameSlots(const absl::flat_hash_map<uint64_t, uint64_t>& renamed, ::pathways::v1::Command* command);

// Whether a Done answers the command, that is, whether it has an op.
bool HasOp(const ::pathways::v1::Command& command);

// Fills in names, op and session. `out` is a copy of `command`, bound before or not: nothing else in it is written, so that it can
// serve one run after another.
void Bind(const ::pathways::v1::Command& command, const Binding& binding, uint64_t op, ::pathways::v1::Command* out);

}  // namespace pw::program
