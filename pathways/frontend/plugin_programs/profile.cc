#include "pathways/frontend/plugin_programs/profile.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/types.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/plugin_programs/services.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

class ProfileProgram final : public PluginExecutable {
 public:
  ProfileProgram(std::string location, std::string session_name, bool has_output)
      : location_(std::move(location)), session_name_(std::move(session_name)), has_output_(has_output) {}

  std::string name() const override { return "profile"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const override {
    return {cluster.devices.empty() ? DeviceId(0) : cluster.devices[0].id};
  }
  // Checks before the recording that the trace can be written.
  void Prepare(ClientSession& session, StatusCallback done) override {
    std::move(done)(session.services().files_of_clients.Resolve(location_).status());
  }

  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session, absl::Span<const Handle> args) override {
    if (!args.empty()) return absl::InvalidArgumentError("a profile program takes no arguments");
    std::vector<buffers::ArraySpec> outputs;
    if (has_output_) {
      outputs.push_back(
          {buffers::DType::kString, {1}, buffers::Sharding::SingleDevice(devices(session.cluster_info())[0], ""), ""});
    }
    return outputs;
  }

  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       StatusCallback done) override {
    PW_ASSIGN_OR_RETURN(const auto specs, Outputs(session, args));
    if (has_output_) PW_RETURN_IF_ERROR(MakeOutput(session, results[0], specs[0]));
    if (session.recorder() == nullptr) {
      session.StartRecording();
      session.cluster().Post([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
      return absl::OkStatus();
    }
    return WriteTrace(session, std::move(done));
  }

 private:
  static absl::Status MakeOutput(ClientSession& session, Handle result, const buffers::ArraySpec& spec) {
    xla::ifrt::proto::StringArrayContents contents;
    contents.add_strings("");
    const Handle buffer = session.session().NewHandle();
    PW_RETURN_IF_ERROR(session.session().StoreHostBuffer(buffer, Bytes::FromString(contents.SerializeAsString())));
    return session.session().MakeArray(result, spec, {{buffer, {spec.dtype, spec.dims, std::nullopt}, {0}}});
  }

  absl::Status WriteTrace(ClientSession& session, StatusCallback done) {
    PW_ASSIGN_OR_RETURN(const storage::Folder location, session.services().files_of_clients.Resolve(location_));
    session.services().files->Post([folder = location / "plugins" / "profile" / session_name_, recorder = session.StopRecording(),
                                    process = absl::StrCat("requests of ", session.hello().peer), &cluster = session.cluster(),
                                    done = std::move(done)]() mutable {
      absl::Status status =
          storage::WriteWholeFile(folder, "pathways_controller.trace.json", Bytes::FromString(recorder->Json(process)));
      cluster.Post([status, done = std::move(done)]() mutable { std::move(done)(status); });
    });
    return absl::OkStatus();
  }

  const std::string location_;
  const std::string session_name_;
  const bool has_output_;
};

bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeProfileProgram(const JsonObject& request) {
  PW_ASSIGN_OR_RETURN(std::string location, StringField(request, "traceLocation"));
  const bool has_options = request.fields().contains("xprofTraceOptions");
  std::string session_name = "pathways";
  if (has_options) {
    PW_ASSIGN_OR_RETURN(const JsonObject options, ObjectField(request, "xprofTraceOptions"));
    if (options.fields().contains("traceSessionName")) {
      PW_ASSIGN_OR_RETURN(session_name, StringField(options, "traceSessionName"));
    }
  }
  if (!IsPlainName(session_name)) return absl::InvalidArgumentError("the name of a trace session must be a plain name");
  return std::make_shared<ProfileProgram>(std::move(location), std::move(session_name), has_options);
}

}  // namespace pw::frontend
