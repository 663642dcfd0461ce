// Plugin programs: requests that client libraries send as programs. The program is JSON text; it is compiled and executed like
// any other, and answers with arrays. The front end carries it out itself.
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
#include "pathways/session/json.h"

namespace pw::frontend {

class ClientSession;

// Readers of requests.
using session::Base64Field;
using session::BoolField;
using session::DevicesField;

class PluginExecutable : public std::enable_shared_from_this<PluginExecutable> {
 public:
  virtual ~PluginExecutable() = default;
  // Compiles the program: called once, before all other methods. `done` runs once, maybe inside the call.
  virtual void Prepare(ClientSession& session, controller::StatusCallback done) { std::move(done)(absl::OkStatus()); }
  virtual std::string name() const = 0;
  // The client requires each argument to have one shard on each of these devices. At least one device.
  virtual std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const = 0;
  // Returns the specs of Execute's results. They depend on the arguments' specs alone.
  virtual absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session,
                                                                  absl::Span<const controller::Handle> args) = 0;
  // `results` has one handle for each output. `done` runs once, when the run ends; it may be dropped if Execute fails.
  virtual absl::Status Execute(ClientSession& session, absl::Span<const controller::Handle> args,
                               absl::Span<const controller::Handle> results, controller::StatusCallback done) = 0;
};

// Makes the executable that the only key of the JSON object names. UNIMPLEMENTED ("Bad PluginProgram: ...") for unknown keys,
// INVALID_ARGUMENT for invalid text.
absl::StatusOr<std::shared_ptr<PluginExecutable>> MakePluginExecutable(absl::string_view json);

}  // namespace pw::frontend
