// SessionPublications: the arrays that one session publishes, and its reads of those that others have published (publications.h).
//
// Publishing gives the arrays' shards new names on their hosts, and moves no bytes: the client may delete or donate its arrays at
// once. A version becomes visible when all its arrays exist; if one of them is an error, it never does. Reading gives the shards
// names for the reader's session, and copies from host to host only those that the reader wants elsewhere.
//
// The shards' new names come from ArrayRearranger, the copies from ArrayCopier. Strand-confined.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "pathways/controller/session/arrays/array_copier.h"
#include "pathways/controller/session/arrays/array_rearranger.h"
#include "pathways/controller/session/context/session_context.h"
#include "pathways/controller/session/publications/publications.h"
#include "pathways/v1/program.pb.h"

namespace pw::controller {

class SessionPublications {
 public:
  static constexpr int kMostArrays = 1 << 16;  // of a version
  static constexpr uint32_t kMostParts = 4096;
  static constexpr size_t kMostNoteBytes = 4 << 20;
  static constexpr size_t kMostWaits = 1024;

  using Info = std::shared_ptr<const ExecutableInfo>;

  // All but `shared` must outlive this. `user`: the session's.
  SessionPublications(SessionContext* context, ArrayRearranger* rearranger, ArrayCopier* copier, std::string user,
                      std::shared_ptr<Publications> shared);
  // Answers waiting requests with CANCELLED.
  ~SessionPublications();

  // Adds the program that publishes a part of a version, or that reads arrays of one.
  absl::StatusOr<Info> Add(const ::pathways::v1::Program& program);
  bool Has(Handle program) const { return programs_.contains(program); }
  Info InfoOf(Handle program) const { return programs_.at(program).info; }
  void Drop(Handle program) { programs_.erase(program); }
  // REQUIRES: Has.
  absl::StatusOr<ExecuteReply> Execute(const ExecuteRequest& request);

  void Ask(const session::PublishedQuestion& question, ResultCallback<std::string> done);
  void OnPublished(const std::string& user, const std::string& name, const VersionRef& version);
  void OnTick(absl::Time now);  // answers requests that have waited for their limit

 private:
  using SpecPtr = SessionContext::SpecPtr;

  struct Program {
    std::string name;
    bool read = false;
    uint32_t part = 0, parts = 1;
    std::string note;
    std::vector<uint32_t> numbers;                                 // of its arrays
    std::shared_ptr<const std::vector<buffers::ArraySpec>> specs;  // of its arrays
    Info info;
    SpecPtr spec(size_t i) const { return {specs, &(*specs)[i]}; }
  };
  // A version of which some parts have been executed.
  struct Begun {
    std::set<uint32_t> missing;  // parts
    std::string note;
    std::map<uint32_t, PublishedVersion::Array> arrays;  // by number
    std::vector<SessionContext::Record> records;
    absl::Status error;  // the first error of its arrays
  };
  // A version that the client was told of, and the numbers of its arrays that the client has not read yet.
  struct Pin {
    VersionRef version;
    std::set<uint32_t> unread;
  };
  struct Wait {
    std::string name;
    uint64_t above;
    absl::Time until;
    ResultCallback<std::string> done;
  };

  absl::StatusOr<Program> Parse(const ::pathways::v1::Program& program) const;
  absl::Status TryPublish(const Program& program, const ExecuteRequest& request);
  void Complete(const std::string& name, Begun begun);
  void Forget(const std::string& name);  // the parts of a version that has not been completed
  absl::Status TryRead(const Program& program, const std::vector<Handle>& results);
  absl::Status ReadOne(Pin& pin, uint32_t number, Handle result, const SpecPtr& spec);
  // Returns another name of an array, of any session, for this session.
  ArrayEntry Alias(const ArrayEntry& source);
  std::string Take(const std::string& name, const VersionRef& version);

  SessionContext* const context_;
  ArrayRearranger* const rearranger_;
  ArrayCopier* const copier_;
  const std::string user_;
  const std::shared_ptr<Publications> shared_;
  absl::flat_hash_map<Handle, Program> programs_;
  std::map<std::string, Begun> begun_;  // by name
  std::map<std::string, Pin> pins_;     // by name
  std::list<Wait> waits_;
  const std::shared_ptr<SessionPublications*> self_ = std::make_shared<SessionPublications*>(this);
};

}  // namespace pw::controller
