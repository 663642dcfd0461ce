// SessionContext: the state of a session that all its parts share: its number, the hosts (Fabric), its devices, its arrays, and the names of
// the objects that it makes on hosts. It has the operations on these that several parts need.
//
// A part gets the context, and the other parts that it uses, as pointers. SessionImpl owns them all and declares a part after those
// that it uses, so they outlive it. A callback that may run after the session's end holds `alive` and does nothing once that has
// expired.
//
// Invariants:
//   CY-1  `alive` expires before any part of the session ends
//   CY-2  no client's callback runs inside the call that gets it: Answer posts it
// Strand-confined.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pathways/controller/arrays/array_table.h"
#include "pathways/controller/hosts/fabric.h"
#include "pathways/controller/names/request_names.h"
#include "pathways/controller/session.h"
#include "pathways/controller/session/context/session_devices.h"

namespace pw::controller {

class SessionContext {
 public:
  using ArraySpec = buffers::ArraySpec;
  using Arrays = absl::Span<const Handle>;
  using SpecPtr = std::shared_ptr<const ArraySpec>;
  using Record = buffers::LogicalArray::Ref;

  // `fabric` must outlive this.
  SessionContext(SessionId id, Fabric* fabric)
      : id_(id), fabric_(fabric), devices_(&fabric->devices()), arrays_(fabric->limits().handles), names_(id) {
    fabric->settlement().Open(id, names_.unsettled());
  }

  SessionId id() const { return id_; }
  Fabric* fabric() const { return fabric_; }
  SessionDevices& devices() { return devices_; }
  ArrayTable& arrays() { return arrays_; }
  const ArrayTable& arrays() const { return arrays_; }
  SessionNames& names() { return names_; }
  // Returns the spec of an array without a known shape.
  const SpecPtr& no_spec() const { return no_spec_; }
  std::weak_ptr<bool> alive() const { return alive_; }
  // Returns the error with which computations are refused now, or OK (UserQuotas).
  const absl::Status& refusal() const { return refusal_; }
  void set_refusal(absl::Status refusal) { refusal_ = std::move(refusal); }
  // Begins the session's end (CY-1).
  void End() { alive_ = nullptr; }

  template <class T>
  void Answer(ResultCallback<T> done, absl::StatusOr<T> result) {
    fabric_->Post([done = std::move(done), result = std::move(result)]() mutable { std::move(done)(std::move(result)); });
  }
  void Answer(StatusCallback done, absl::Status status);

  // Binds `error` to those result handles that can be used, and returns it.
  absl::Status Fail(Arrays results, absl::Span<const SpecPtr> specs, const absl::Status& error);
  // `spec` may be null: the shape is not known.
  void InsertError(Handle result, SpecPtr spec, const absl::Status& error);
  ArrayId NewArrayId() { return ArrayId(names_.now().NextId()); }
  // Returns a new array with one completion outstanding: the caller gives it by OnDone when all commands are planned.
  Record NewRecord(const SpecPtr& spec);
  // Returns OK if an array of this client can have the spec.
  absl::Status CheckSpec(const ArraySpec& spec) const;
  // Adds another handle for the same record, with `spec`.
  void Share(Handle result, const ArrayEntry& source, SpecPtr spec);
  // Adds a string array made of cells of others.
  void InsertStrings(Handle result, SpecPtr spec, StringCells cells);
  // Deletes the inputs of an operation that takes them over.
  void Consume(Arrays arrays, CopySemantics semantics);
  // Returns the entries of live arrays, or the error of the first handle that has none.
  absl::StatusOr<std::vector<ArrayEntry>> LiveEntries(Arrays arrays);

  // Returns the name of a new command for the host; each of `results` waits for its completion.
  OpId NameOp(HostId host, const std::vector<Record>& results, OpsInFlight::Callback done = nullptr);
  // Like NameOp, for a command that `names` names.
  OpId NameOp(NameScope& names, HostId host, const std::vector<Record>& results, OpsInFlight::Callback done = nullptr);
  // Records the op in a trace. REQUIRES: the recorder is on.
  void Trace(HostId host, OpId op, const std::string& what, gang::GangId gang = {});

 private:
  const SessionId id_;
  Fabric* const fabric_;
  SessionDevices devices_;
  const SpecPtr no_spec_ = std::make_shared<const ArraySpec>();
  ArrayTable arrays_;
  SessionNames names_;
  absl::Status refusal_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace pw::controller
