#include "pathways/frontend/plugin_programs/effects.h"

#include <utility>

#include "pathways/frontend/client_session.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

class EffectsProgram final : public PluginExecutable {
 public:
  void Prepare(ClientSession& session, StatusCallback done) override { session.session().AwaitEffects(std::move(done)); }
  std::string name() const override { return "effects request"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const override {
    return {cluster.devices.empty() ? DeviceId(0) : cluster.devices[0].id};
  }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession&, absl::Span<const Handle>) override {
    return std::vector<buffers::ArraySpec>();
  }
  absl::Status Execute(ClientSession& session, absl::Span<const Handle>, absl::Span<const Handle>, StatusCallback done) override {
    session.cluster().Post([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeEffectsProgram(const JsonObject&) {
  return std::make_shared<EffectsProgram>();
}

}  // namespace pw::frontend
