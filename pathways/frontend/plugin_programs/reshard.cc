#include "pathways/frontend/plugin_programs/reshard.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/convert/sharding.h"

namespace pw::frontend {
namespace {

using controller::Handle;

struct Target {
  std::vector<DeviceId> devices;
  std::string op_sharding;
  std::string memory_kind;
};

class ReshardProgram final : public PluginExecutable {
 public:
  ReshardProgram(std::vector<DeviceId> devices, std::vector<Target> targets, controller::CopySemantics semantics)
      : devices_(std::move(devices)), targets_(std::move(targets)), semantics_(semantics) {}

  std::string name() const override { return "reshard"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo&) const override { return devices_; }

  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session, absl::Span<const Handle> args) override {
    if (args.size() != targets_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a reshard program of ", targets_.size(), " arrays was called with ", args.size()));
    }
    std::vector<buffers::ArraySpec> specs;
    for (size_t i = 0; i < args.size(); ++i) {
      PW_ASSIGN_OR_RETURN(buffers::ArraySpec spec, session.session().Spec(args[i]));
      const Target& target = targets_[i];
      PW_ASSIGN_OR_RETURN(spec.sharding,
                          ShardingFromOpSharding(target.op_sharding, target.devices, target.memory_kind, spec.dims));
      specs.push_back(std::move(spec));
    }
    return specs;
  }

  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       controller::StatusCallback done) override {
    auto specs = Outputs(session, args);
    absl::Status status = specs.status();
    if (specs.ok()) {
      status = session.session().Reshard(results, args, *specs, semantics_);
    } else {
      session.Poison(results, status);
    }
    session.session().WhenReady(results, std::move(done));
    return status;
  }

 private:
  const std::vector<DeviceId> devices_;
  const std::vector<Target> targets_;
  const controller::CopySemantics semantics_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeReshardProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(std::vector<JsonObject> in, ObjectsField(request, "inSharding"));
  PW_ASSIGN_OR_RETURN(std::vector<JsonObject> out, ObjectsField(request, "outSharding"));
  if (in.size() != out.size() || in.empty()) {
    return absl::InvalidArgumentError("a reshardRequest needs as many inSharding as outSharding, at least one");
  }
  PW_ASSIGN_OR_RETURN(std::vector<DeviceId> devices, DevicesField(in[0], "devices"));
  std::vector<Target> targets;
  for (const JsonObject& sharding : out) {
    Target& target = targets.emplace_back();
    PW_ASSIGN_OR_RETURN(target.devices, DevicesField(sharding, "devices"));
    PW_ASSIGN_OR_RETURN(target.op_sharding, Base64Field(sharding, "xla_hlo_sharding"));
    if (sharding.fields().contains("memory_kind")) {
      PW_ASSIGN_OR_RETURN(target.memory_kind, StringField(sharding, "memory_kind"));
    }
  }
  const auto semantics =
      BoolField(request, "donateInput") ? controller::CopySemantics::kDonateInput : controller::CopySemantics::kAlwaysCopy;
  return std::make_shared<ReshardProgram>(std::move(devices), std::move(targets), semantics);
}

}  // namespace pw::frontend
