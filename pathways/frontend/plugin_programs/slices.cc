#include "pathways/frontend/plugin_programs/slices.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"
#include "pathways/frontend/client_session.h"
#include "pathways/frontend/plugin_programs/text_answer.h"

namespace pw::frontend {
namespace {

using controller::SliceState;
using controller::StatusCallback;
using resource::SliceRequest;

constexpr double kLongestWaitSeconds = 60;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a slice request ", what));
}

// Returns 0 if it is missing.
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

class SliceProgram : public TextAnswer {
 public:
  SliceProgram() : TextAnswer("slice request") {}

 protected:
  // Keeps the cluster's answer about a slice for the client.
  controller::ResultCallback<SliceState> AnswerTo(StatusCallback done) {
    return [self = shared_from_this(), this, done = std::move(done)](absl::StatusOr<SliceState> state) mutable {
      if (state.ok()) answer_ = ToJson(*state);
      std::move(done)(state.status());
    };
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
