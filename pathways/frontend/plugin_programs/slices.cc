#include "pathways/frontend/plugin_programs/slices.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"

namespace pw::frontend {
namespace {

using controller::Handle;
using controller::SliceState;
using controller::StatusCallback;
using resource::SliceRequest;

constexpr double kLongestWaitSeconds = 60;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("Bad PluginProgram: a slice request ", what));
}

// 0 if it is missing.
absl::StatusOr<int64_t> WholeNumber(const JsonObject& object, const std::string& name) {
  auto it = object.fields().find(name);
  if (it == object.fields().end()) return 0;
  const double number = it->second.number_value();
  if (it->second.kind_case() != JsonValue::kNumberValue || !(number >= 0 && number <= 9e15) ||
      number != static_cast<double>(static_cast<int64_t>(number))) {
    return Bad(absl::StrCat("needs a whole number as ", name));
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<std::string> Text(const JsonObject& object, const std::string& name) {
  if (!object.fields().contains(name)) return std::string();
  return StringField(object, name);
}

absl::StatusOr<resource::HostChoice> HostsField(const JsonObject& add) {
  PW_ASSIGN_OR_RETURN(const std::string hosts, Text(add, "hosts"));
  if (hosts.empty() || hosts == "any") return resource::HostChoice::kAny;
  if (hosts == "spread") return resource::HostChoice::kSpread;
  if (hosts == "pack") return resource::HostChoice::kPack;
  return Bad(absl::StrCat("chooses hosts by \"any\", \"spread\" or \"pack\", not \"", hosts, "\""));
}

absl::StatusOr<SliceRequest> ReadRequest(const JsonObject& add) {
  SliceRequest request;
  PW_ASSIGN_OR_RETURN(request.count, WholeNumber(add, "count"));
  if (add.fields().contains("shape")) {
    PW_ASSIGN_OR_RETURN(request.shape, NumbersField(add, "shape"));
    int64_t product = request.shape.empty() ? 0 : 1;
    for (int64_t extent : request.shape) {
      if (__builtin_mul_overflow(product, extent, &product)) return Bad("has a shape of too many devices");
    }
    if (request.count == 0) request.count = product;
  }
  PW_ASSIGN_OR_RETURN(request.platform, Text(add, "platform"));
  PW_ASSIGN_OR_RETURN(request.kind, Text(add, "kind"));
  PW_ASSIGN_OR_RETURN(request.island, Text(add, "island"));
  PW_ASSIGN_OR_RETURN(request.memory_per_device, WholeNumber(add, "memory_per_device"));
  PW_ASSIGN_OR_RETURN(request.hosts, HostsField(add));
  request.exclusive = BoolField(add, "exclusive");
  if (add.fields().contains("beside")) {
    PW_ASSIGN_OR_RETURN(const int64_t beside, WholeNumber(add, "beside"));
    request.beside = SliceId(static_cast<uint64_t>(beside));
  }
  return request;
}

void WriteIds(absl::string_view key, const std::vector<DeviceId>& devices, JsonWriter& json) {
  json.Key(std::string(key)).BeginArray();
  for (DeviceId device : devices) json.Int(device.v);
  json.EndArray();
}

std::string ToJson(const SliceState& state) {
  JsonWriter json;
  json.BeginObject().Key("slice").Int(static_cast<int64_t>(state.slice.v));
  if (state.what == SliceState::What::kPlaced) {
    json.Key("state").String("placed").Key("island").String(state.island).Key("epoch").Int(static_cast<int64_t>(state.epoch));
    WriteIds("devices", state.devices, json);
    WriteIds("physical", state.physical, json);
    json.Key("hosts").BeginArray();
    for (const std::string& host : state.hosts) json.String(host);
    return json.EndArray().EndObject().Take();
  }
  const bool waits = state.what == SliceState::What::kWaiting;
  json.Key("state").String(waits ? "waiting" : "refused").Key("position").Int(state.position).Key("text").String(state.text);
  return json.EndObject().Take();
}

class SliceProgram : public PluginExecutable {
 public:
  std::string name() const override { return "slice request"; }
  std::vector<DeviceId> devices(const controller::ClusterInfo& cluster) const override {
    return {cluster.devices.empty() ? DeviceId(0) : cluster.devices[0].id};
  }
  absl::StatusOr<std::vector<buffers::ArraySpec>> Outputs(ClientSession& session, absl::Span<const Handle> args) override {
    if (!args.empty()) return absl::InvalidArgumentError("a slice request takes no arguments");
    PW_ASSIGN_OR_RETURN(const DeviceId device, DeviceThatIsThere(session));
    const auto size = static_cast<int64_t>(answer_.size());
    return std::vector<buffers::ArraySpec>{{buffers::DType::kU8, {size}, buffers::Sharding::SingleDevice(device, ""), ""}};
  }
  absl::Status Execute(ClientSession& session, absl::Span<const Handle> args, absl::Span<const Handle> results,
                       StatusCallback done) override {
    PW_ASSIGN_OR_RETURN(const auto specs, Outputs(session, args));
    const Handle buffer = session.session().NewHandle();
    PW_RETURN_IF_ERROR(session.session().StoreHostBuffer(buffer, Bytes::FromString(answer_)));
    PW_RETURN_IF_ERROR(
        session.session().MakeArray(results[0], specs[0], {{buffer, {specs[0].dtype, specs[0].dims, std::nullopt}, {0}}}));
    session.cluster().Post([done = std::move(done)]() mutable { std::move(done)(absl::OkStatus()); });
    return absl::OkStatus();
  }

 protected:
  // Keeps what the cluster says of a slice for the client.
  controller::ResultCallback<SliceState> AnswerTo(StatusCallback done) {
    return [self = shared_from_this(), this, done = std::move(done)](absl::StatusOr<SliceState> state) mutable {
      if (state.ok()) answer_ = ToJson(*state);
      std::move(done)(state.status());
    };
  }

  std::string answer_ = "{}";

 private:
  // Of those that the client knows.
  static absl::StatusOr<DeviceId> DeviceThatIsThere(ClientSession& session) {
    const auto now = session.cluster().info();
    for (const auto& known : session.cluster_info().devices) {
      const bool there =
          std::any_of(now->devices.begin(), now->devices.end(), [&](const auto& device) { return device.id == known.id; });
      if (there) return known.id;
    }
    return absl::UnavailableError("the cluster has lost all the devices that it had when this client connected: connect again");
  }
};

class AddSlice final : public SliceProgram {
 public:
  explicit AddSlice(SliceRequest request) : request_(std::move(request)) {}
  void Prepare(ClientSession& session, StatusCallback done) override {
    session.cluster().AddSlice(session.session().id(), request_, AnswerTo(std::move(done)));
  }

 private:
  const SliceRequest request_;
};

class AwaitSlice final : public SliceProgram {
 public:
  AwaitSlice(SliceId slice, absl::Duration limit) : slice_(slice), limit_(limit) {}
  void Prepare(ClientSession& session, StatusCallback done) override {
    session.cluster().AwaitSlice(session.session().id(), slice_, limit_, AnswerTo(std::move(done)));
  }

 private:
  const SliceId slice_;
  const absl::Duration limit_;
};

class ReleaseSlice final : public SliceProgram {
 public:
  explicit ReleaseSlice(SliceId slice) : slice_(slice) {}
  void Prepare(ClientSession& session, StatusCallback done) override {
    session.cluster().ReleaseSlice(session.session().id(), slice_, std::move(done));
  }

 private:
  const SliceId slice_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<PluginExecutable>> MakeSliceProgram(const JsonObject& request) {
  if (request.fields_size() != 1) return Bad("must have one key: add, await or release");
  const std::string what = request.fields().begin()->first;
  PW_ASSIGN_OR_RETURN(const JsonObject fields, ObjectField(request, what));
  if (what == "add") {
    PW_ASSIGN_OR_RETURN(SliceRequest wanted, ReadRequest(fields));
    return std::make_shared<AddSlice>(std::move(wanted));
  }
  PW_ASSIGN_OR_RETURN(const int64_t number, WholeNumber(fields, "slice"));
  const SliceId slice(static_cast<uint64_t>(number));
  if (what == "release") return std::make_shared<ReleaseSlice>(slice);
  if (what != "await") return Bad(absl::StrCat("is one of add, await or release, not ", what));
  auto seconds = fields.fields().find("seconds");
  const double limit = seconds == fields.fields().end() ? 0 : seconds->second.number_value();
  if (!(limit >= 0 && limit <= kLongestWaitSeconds))
    return Bad(absl::StrCat("waits for 0 to ", kLongestWaitSeconds, " seconds at a time"));
  return std::make_shared<AwaitSlice>(slice, absl::Seconds(limit));
}

}  // namespace pw::frontend
