// ArrayFiles: saves and loads a session's arrays in files. The hosts write and read them, each its own tiles (save_run.h;
// dispatch/plan_files.h). Strand-confined.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "pathways/controller/session/context/pending_reads.h"
#include "pathways/controller/session/context/session_context.h"

namespace pw::controller {

class ArrayFiles {
 public:
  // `context` and `reads` must outlive this. `about` names the user whose files the session may use.
  ArrayFiles(SessionContext* context, PendingReads* reads, const session::NewSession& about);

  // These are the methods of Session.
  void Save(session::SaveRequest request, StatusCallback done);
  void Load(const session::LoadRequest& request, StatusCallback done);

 private:
  using Record = SessionContext::Record;
  using SpecPtr = SessionContext::SpecPtr;

  absl::StatusOr<const ArrayEntry*> CheckSave(Handle array);
  absl::StatusOr<Record> TryLoad(const std::string& location, const session::LoadRequest::Array& array, const SpecPtr& spec);

  SessionContext* const context_;
  Fabric* const fabric_;
  PendingReads* const reads_;
  const std::string user_;  // empty: the files of the hosts' own user
};

}  // namespace pw::controller
