#include "pathways/frontend/plugin_programs/profile.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ifrt_proxy/types.pb.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/plugin_programs/services.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::StatusCallback;

constexpr uint64_t kMostBytes = uint64_t{256} << 20;  // of each host

bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

// Ends the session's profile, and writes the XSpaces of its hosts, one after the other. On the strand; files are written on their own thread.
class HostProfiles : public std::enable_shared_from_this<HostProfiles> {
 public:
  HostProfiles(ClientSession& session, storage::Folder folder, StatusCallback done)
      : session_(session.session().id()),
        cluster_(&session.cluster()),
        files_(session.services().files),
        folder_(std::move(folder)),
        done_(std::move(done)) {}

  // `status`: of what was written before.
  void Start(const absl::Status& status) {
    if (!status.ok()) return End(status);
    cluster_->StopProfile(session_, [self = shared_from_this()](absl::StatusOr<session::ClusterProfile> profile) {
      if (!profile.ok()) return self->End(profile.status());
      self->hosts_ = std::move(profile->hosts);
      self->Read();
    });
  }

 private:
  // Reads the next piece of the host `next_`.
  void Read() {
    while (next_ < hosts_.size() && hosts_[next_].bytes == 0) ++next_;
    if (next_ == hosts_.size()) return End(absl::OkStatus());
    cluster_->ReadProfile(session_, next_, bytes_.size(), [self = shared_from_this()](absl::StatusOr<Bytes> piece) {
      if (!piece.ok()) return self->End(piece.status());
      if (piece->empty()) return self->End(absl::DataLossError("a host's profile is shorter than was said"));
      self->bytes_.append(piece->view());
      if (self->bytes_.size() < self->hosts_[self->next_].bytes) return self->Read();
      self->Write();
    });
  }
  void Write() {
    const std::string& host = hosts_[next_].name;
    const std::string name = absl::StrCat(IsPlainName(host) ? host : absl::StrCat("host", next_), ".xplane.pb");
    ++next_;
    files_->Post([self = shared_from_this(), name, bytes = Bytes::FromString(std::exchange(bytes_, {}))] {
      const absl::Status status = storage::WriteWholeFile(self->folder_, name, bytes);
      self->cluster_->Post([self, status] { status.ok() ? self->Read() : self->End(status); });
    });
  }
  void End(const absl::Status& status) {
    cluster_->DropProfile(session_);
    std::move(done_)(status);
  }

  const SessionId session_;
  controller::Cluster* const cluster_;
  Executor* const files_;
  const storage::Folder folder_;
  StatusCallback done_;
  std::vector<session::ClusterProfile::Host> hosts_;
  size_t next_ = 0;
  std::string bytes_;
};

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
    if (session.recorder() != nullptr) return WriteAll(session, std::move(done));
    session.StartRecording();
    auto started = [weak = session.weak_from_this(), done = std::move(done)](absl::Status status) mutable {
      const auto self = weak.lock();
      if (!status.ok() && self != nullptr) self->StopRecording();
      std::move(done)(std::move(status));
    };
    session.cluster().StartProfile(session.session().id(), {.everything = true, .max_bytes = kMostBytes}, std::move(started));
    return absl::OkStatus();
  }

 private:
  static absl::Status MakeOutput(ClientSession& session, Handle result, const buffers::ArraySpec& spec) {
    xla::ifrt::proto::StringArrayContents contents;
    contents.add_strings("");
    const Handle buffer = session.session().NewHandle();
    PW_RETURN_IF_ERROR(session.session().StoreHostBuffer(buffer, Bytes::FromString(contents.SerializeAsString())));
    return session.session().MakeArray(result, spec, {{buffer, {spec.dtype, spec.dims, std::nullopt}, {0}}});
  }

  absl::Status WriteAll(ClientSession& session, StatusCallback done) {
    PW_ASSIGN_OR_RETURN(const storage::Folder location, session.services().files_of_clients.Resolve(location_));
    const storage::Folder folder = location / "plugins" / "profile" / session_name_;
    auto writer = std::make_shared<HostProfiles>(session, folder, std::move(done));
    session.services().files->Post([folder, recorder = session.StopRecording(), writer,
                                    process = absl::StrCat("requests of ", session.hello().peer),
                                    &cluster = session.cluster()]() mutable {
      absl::Status status =
          storage::WriteWholeFile(folder, "pathways_controller.trace.json", Bytes::FromString(recorder->Json(process)));
      cluster.Post([status, writer = std::move(writer)] { writer->Start(status); });
    });
    return absl::OkStatus();
  }

  const std::string location_;
  const std::string session_name_;
  const bool has_output_;
};

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
