// SessionMover: moves a client's virtual devices to other physical ones while the client works (paper 4.1: "suspend, resume, migrate").
// Slices decides what moves where.
//
// First the executables on these devices are compiled for their new places, in the background, under *scratch* ids, which stand
// for the same virtual devices in the new mapping. Then, in one turn of the strand, the devices are bound anew. The new
// executables and programs replace the old ones under the old handles, and every array is copied to its new place for later
// requests. Earlier requests have gone to the old places, in order, and end there.
//
// Suspending copies all arrays to host memory, named by physical devices; resuming is a move from there.
// Strand-confined.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/executables/executable_table.h"
#include "pathways/controller/session/executables/session_executables.h"
#include "pathways/controller/session/runs/session_programs.h"

namespace pw::controller {

using DeviceMapping = absl::flat_hash_map<DeviceId, DeviceId>;  // virtual device to its new physical device

class SessionMover {
 public:
  using Record = SessionContext::Record;

  // All must outlive this.
  SessionMover(SessionContext* context, ExecutableTable* executable_table, SessionExecutables* executables,
               SessionPrograms* programs)
      : context_(context),
        fabric_(context->fabric()),
        executable_table_(executable_table),
        executables_(executables),
        programs_(programs) {}

  // Compiles the executables on these devices for their new places. `done` runs once, maybe inside the call. OK: the caller calls Move
  // in the same turn of the strand, else Abandon. REQUIRES: !moving().
  void Prepare(const DeviceMapping& to, StatusCallback done);
  void Abandon();  // drops what was prepared: the devices stay where they are
  // Binds the devices to their new places and copies everything on them there. Returns the arrays in flight.
  std::vector<Record> Move(const DeviceMapping& to);
  bool moving() const { return preparation_ != nullptr; }

  // Copies all arrays to the memory of their hosts, until Move brings them back. Returns them. REQUIRES: !suspended(), !moving().
  std::vector<Record> Suspend();
  void Resume();  // after Move
  bool suspended() const { return suspended_; }
  // Runs `resumed` in a task of its own after Resume, or drops it at the end of the session.
  void WhenResumed(absl::AnyInvocable<void() &&> resumed) { when_resumed_.push_back(std::move(resumed)); }

  // Ends a move that is being prepared: its `done` gets the error. Called at the end of the session.
  void End(const absl::Status& error);

 private:
  using ArraySpec = SessionContext::ArraySpec;
  using SpecPtr = SessionContext::SpecPtr;
  struct Preparation;
  struct MovingArray;

  void CompileForTarget();
  std::vector<MovingArray> ArraysOn(const DeviceMapping& devices) const;
  Record MoveRecord(const Record& from, const ArraySpec& from_spec, const SpecPtr& spec);
  std::vector<Record> MoveAll(const std::vector<MovingArray>& leaving);
  ArraySpec InHostMemory(const ArraySpec& spec) const;

  SessionContext* const context_;
  Fabric* const fabric_;
  ExecutableTable* const executable_table_;
  SessionExecutables* const executables_;
  SessionPrograms* const programs_;
  std::shared_ptr<Preparation> preparation_;  // while a move is prepared
  bool suspended_ = false;
  std::vector<absl::AnyInvocable<void() &&>> when_resumed_;
  absl::flat_hash_map<const buffers::LogicalArray*, SpecPtr> saved_;  // while suspended: the arrays' specs on devices
};

}  // namespace pw::controller
