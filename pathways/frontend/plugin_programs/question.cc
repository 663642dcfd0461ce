#include "pathways/frontend/plugin_programs/question.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/session/questions.h"

namespace pw::frontend {
namespace {

using controller::Handle;

// Returns a device that the client knows and the cluster still has.
absl::StatusOr<DeviceId> PresentDevice(ClientSession& session) {
  const auto now = session.cluster().info();
  for (const auto& known : session.cluster_info().devices) {
    const bool present =
        std::any_of(now->devices.begin(), now->devices.end(), [&](const auto& device) { return device.id == known.id; });
    if (present) return known.id;
  }
  return absl::UnavailableError("the cluster has lost all the devices that it had when this client connected: connect again");
}

class Question final : public PluginExecutable {
 public:
  Question(std::string kind, JsonObject request) : kind_(std::move(kind)), request_(std::move(request)) {}

  void Prepare(ClientSession& session, controller::StatusCallback done) override {
    auto answered = [self = shared_from_this(), this, done = std::move(done)](absl::StatusOr<std::string> answer) mutable {
      if (answer.ok()) answer_ = *std::move(answer);
      std::move(done)(answer.status());
    };
    session::Ask(session.cluster(), session.session(), kind_, request_, std::move(answered));
  }
  std::string name() const override { return kind_; }
  std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const override {
    return {cluster.devices.empty() ? DeviceId(0) : cluster.devices[0].id};
  }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session, absl::Span<const Handle> args) override;
  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       controller::StatusCallback done) override;

 private:
  const std::string kind_;
  const JsonObject request_;
  std::string answer_;
};

absl::StatusOr<std::vector<buffers::ArraySpec>> Question::Outputs(ClientSession& session, absl::Span<const Handle> args) {
  if (!args.empty()) return absl::InvalidArgumentError(absl::StrCat("a ", kind_, " takes no arguments"));
  PW_ASSIGN_OR_RETURN(const DeviceId device, PresentDevice(session));
  const auto size = static_cast<int64_t>(answer_.size());
  return std::vector<buffers::ArraySpec>{{buffers::DType::kU8, {size}, buffers::Sharding::SingleDevice(device, ""), ""}};
}

absl::Status Question::Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                               controller::StatusCallback done) {
  PW_ASSIGN_OR_RETURN(const auto specs, Outputs(session, args));
  const Handle buffer = session.session().NewHandle();
  PW_RETURN_IF_ERROR(session.session().StoreHostBuffer(buffer, Bytes::FromString(answer_)));
  PW_RETURN_IF_ERROR(
      session.session().MakeArray(results[0], specs[0], {{buffer, {specs[0].dtype, specs[0].dims, std::nullopt}, {0}}}));
  session.cluster().Post([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<PluginExecutable> MakeQuestion(std::string kind, JsonObject request) {
  return std::make_shared<Question>(std::move(kind), std::move(request));
}

}  // namespace pw::frontend
