// SessionRestorer: makes the arrays of a session of the controller before (session/restoration.h) from what its client says and hosts have
// reported, and keeps the account of settled requests for a client that may restore its session with yet another controller.
//
// Strand-confined.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/session/restoration.h"

namespace pw::controller {

class SessionRestorer final : public session::Restoration {
 public:
  using AddExecutable = std::function<Handle(const std::vector<DeviceId>& devices, const absl::Status& why)>;
  // `context` outlives this. `add_unusable` adds an executable that cannot run.
  SessionRestorer(SessionContext* context, AddExecutable add_unusable)
      : context_(context), fabric_(context->fabric()), add_unusable_(std::move(add_unusable)) {}

  void AwaitClient() override { context_->names().unsettled()->AwaitClient(); }
  uint64_t done_up_to() const override { return context_->names().unsettled()->done_up_to(); }
  size_t untold() const override { return context_->names().unsettled()->untold(); }
  session::SettledNews TakeSettled() override;
  size_t unsettled() const override { return context_->names().unsettled()->unsettled(); }
  std::optional<uint64_t> NameOf(Handle array) override;
  absl::Status RestoreArrays(absl::Span<const session::RestoredArray> arrays) override;
  absl::Status CheckManyNodes(const Bytes& program) const override;
  Handle AddUnusable(const std::vector<DeviceId>& devices, absl::Status why) override { return add_unusable_(devices, why); }
  bool OnOneHost() const override { return fabric_->topology().hosts().size() == 1; }
  void Finish(absl::Span<const uint64_t> numbers, uint64_t last) override;

 private:
  absl::Status Restore(const session::RestoredArray& array);
  // Makes the record of an array that hosts should have.
  absl::StatusOr<SessionContext::Record> RecordOf(const session::RestoredArray& array);

  SessionContext* const context_;
  Fabric* const fabric_;
  const AddExecutable add_unusable_;
  // Until Finish:
  absl::flat_hash_map<uint64_t, SessionContext::Record> restored_;  // by name
  // Arrays that a host does not have. A request that is carried out again may have consumed them, or deleted them: its hosts know.
  std::vector<std::pair<SessionContext::Record, HostId>> absent_;
};

}  // namespace pw::controller
