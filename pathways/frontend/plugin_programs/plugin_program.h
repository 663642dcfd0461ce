// Plugin programs: requests of client libraries that come in the clothes of a program: JSON text, compiled and executed like one, answered with
// arrays. The front end carries them out itself.
//
// Compile makes a PluginExecutable; each Execute calls it once. All on the strand.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/controller/session.h"

namespace pw::frontend {

class ClientSession;

class PluginExecutable : public std::enable_shared_from_this<PluginExecutable> {
 public:
  virtual ~PluginExecutable() = default;
  // Once, before anything else: what the compilation of such a program is. `done` runs once, possibly inside the call.
  virtual void Prepare(ClientSession& session, controller::StatusCallback done) { std::move(done)(absl::OkStatus()); }
  virtual std::string name() const = 0;
  // The client wants each argument to have one shard on each of these. At least one.
  virtual std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const = 0;
  // What Execute makes of such arguments. The same for every call with arguments of the same specs.
  virtual absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session,
                                                                  absl::Span<const controller::Handle> args) = 0;
  // `results` has one handle for each output. `done` tells the end of the run, once; it may be dropped if Execute fails.
  virtual absl::Status Execute(ClientSession& session, absl::Span<const controller::Handle> args,
                               absl::Span<const controller::Handle> results, controller::StatusCallback done) = 0;
};

// The kinds known, by the one key of the JSON object. UNIMPLEMENTED ("Bad PluginProgram: ...") for others, INVALID_ARGUMENT for broken text.
absl::StatusOr<std::shared_ptr<PluginExecutable>> MakePluginExecutable(absl::string_view json);

}  // namespace pw::frontend
