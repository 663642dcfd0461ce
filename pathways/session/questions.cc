#include "pathways/session/questions.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "pathways/base/json_writer.h"
#include "pathways/base/status_macros.h"

namespace pw::session {
namespace {

using resource::SliceRequest;
using TextCallback = ResultCallback<std::string>;

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("a request ", what)); }

// Returns 0 if the field is missing.
absl::StatusOr<int64_t> WholeNumber(const JsonObject& object, const std::string& name) {
  const JsonValue* value = FindField(object, name);
  if (value == nullptr) return 0;
  const std::optional<uint64_t> number = CountOf(*value);
  if (!number.has_value()) return Bad(absl::StrCat("needs a whole number as ", name));
  return static_cast<int64_t>(*number);
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

ResultCallback<SliceState> InJson(TextCallback done) {
  return [done = std::move(done)](absl::StatusOr<SliceState> state) mutable {
    if (!state.ok()) return std::move(done)(state.status());
    std::move(done)(ToJson(*state));
  };
}

// Answers {} if all went well.
StatusCallback WithoutText(TextCallback done) {
  return [done = std::move(done)](absl::Status status) mutable {
    if (!status.ok()) return std::move(done)(std::move(status));
    std::move(done)(std::string("{}"));
  };
}

// Puts the bytes of the session's arrays before the cluster's report.
TextCallback WithArrayBytes(const Session& session, TextCallback done) {
  return [bytes = session.array_bytes(), done = std::move(done)](absl::StatusOr<std::string> report) mutable {
    if (report.ok() && absl::StartsWith(*report, "{"))
      report = absl::StrCat("{\"client_array_bytes\": ", bytes, ", ", report->substr(1));
    std::move(done)(std::move(report));
  };
}

absl::StatusOr<absl::Duration> SecondsField(const JsonObject& fields) {
  const JsonValue* seconds = FindField(fields, "seconds");
  const double limit = seconds == nullptr ? 0 : seconds->number_value();
  if (!(limit >= 0 && limit <= kLongestWaitSeconds))
    return Bad(absl::StrCat("waits for 0 to ", kLongestWaitSeconds, " seconds at a time"));
  return absl::Seconds(limit);
}

// Takes `done` only if it returns OK.
absl::Status AskAboutSlices(Cluster& cluster, SessionId session, const JsonObject& request, TextCallback& done) {
  if (request.fields_size() != 1) return Bad("must have one key: add, await or release");
  const std::string what = request.fields().begin()->first;
  PW_ASSIGN_OR_RETURN(const JsonObject fields, ObjectField(request, what));
  if (what == "add") {
    PW_ASSIGN_OR_RETURN(const SliceRequest wanted, ReadRequest(fields));
    cluster.AddSlice(session, wanted, InJson(std::move(done)));
    return absl::OkStatus();
  }
  PW_ASSIGN_OR_RETURN(const int64_t number, WholeNumber(fields, "slice"));
  const SliceId slice(static_cast<uint64_t>(number));
  if (what == "release") {
    cluster.ReleaseSlice(session, slice, WithoutText(std::move(done)));
    return absl::OkStatus();
  }
  if (what != "await") return Bad(absl::StrCat("is one of add, await or release, not ", what));
  PW_ASSIGN_OR_RETURN(const absl::Duration limit, SecondsField(fields));
  cluster.AwaitSlice(session, slice, limit, InJson(std::move(done)));
  return absl::OkStatus();
}

// Takes `done` only if it returns OK.
absl::Status AskAboutPublished(Session& session, const JsonObject& request, TextCallback& done) {
  if (request.fields_size() != 1) return Bad("about published arrays must have one key: claim, await or withdraw");
  const std::string what = request.fields().begin()->first;
  PublishedQuestion question;
  PW_ASSIGN_OR_RETURN(const JsonObject fields, ObjectField(request, what));
  PW_ASSIGN_OR_RETURN(question.name, StringField(fields, "name"));
  if (what == "await") {
    PW_ASSIGN_OR_RETURN(const int64_t above, WholeNumber(fields, "above"));
    question.above = static_cast<uint64_t>(above);
    PW_ASSIGN_OR_RETURN(question.limit, SecondsField(fields));
  } else if (what == "claim") {
    question.what = PublishedQuestion::What::kClaim;
  } else if (what == "withdraw") {
    question.what = PublishedQuestion::What::kWithdraw;
  } else {
    return Bad(absl::StrCat("about published arrays is one of claim, await or withdraw, not ", what));
  }
  session.AskPublished(question, std::move(done));
  return absl::OkStatus();
}

std::string ToJson(const ClusterProfile& profile) {
  JsonWriter json;
  json.BeginObject().Key("hosts").BeginArray();
  for (const ClusterProfile::Host& host : profile.hosts) {
    json.BeginObject().Key("name").String(host.name).Key("bytes").Int(static_cast<int64_t>(host.bytes));
    json.Key("missing").String(host.missing).EndObject();
  }
  return json.EndArray().EndObject().Take();
}

// Takes `done` only if it returns OK.
absl::Status AskAboutProfile(Cluster& cluster, SessionId session, const JsonObject& request, TextCallback& done) {
  if (request.fields_size() != 1) return Bad("about a profile must have one key: start, stop, read or drop");
  const std::string what = request.fields().begin()->first;
  PW_ASSIGN_OR_RETURN(const JsonObject fields, ObjectField(request, what));
  if (what == "start") {
    cluster.StartProfile(session, {.everything = true, .merged = BoolField(fields, "merged")}, WithoutText(std::move(done)));
  } else if (what == "stop") {
    cluster.StopProfile(session, [done = std::move(done)](absl::StatusOr<ClusterProfile> profile) mutable {
      if (!profile.ok()) return std::move(done)(profile.status());
      std::move(done)(ToJson(*profile));
    });
  } else if (what == "read") {
    PW_ASSIGN_OR_RETURN(const int64_t host, WholeNumber(fields, "host"));
    PW_ASSIGN_OR_RETURN(const int64_t offset, WholeNumber(fields, "offset"));
    cluster.ReadProfile(session, static_cast<size_t>(host), static_cast<uint64_t>(offset),
                        [done = std::move(done)](absl::StatusOr<Bytes> bytes) mutable {
                          if (!bytes.ok()) return std::move(done)(bytes.status());
                          JsonWriter json;
                          json.BeginObject().Key("piece").String(absl::Base64Escape({bytes->view().data(), bytes->size()})).EndObject();
                          std::move(done)(json.Take());
                        });
  } else if (what == "drop") {
    cluster.DropProfile(session);
    std::move(done)(std::string("{}"));
  } else {
    return Bad(absl::StrCat("about a profile is one of start, stop, read or drop, not ", what));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsQuestion(absl::string_view kind) {
  return kind == "sliceRequest" || kind == "publishedRequest" || kind == "profilerRequest" || kind == "statusRequest" ||
         kind == "effectsRequest";
}

void Ask(Cluster& cluster, Session& session, absl::string_view kind, const JsonObject& request, TextCallback done) {
  if (kind == "statusRequest") return cluster.GetStatus(WithArrayBytes(session, std::move(done)));
  if (kind == "effectsRequest") return session.AwaitEffects(WithoutText(std::move(done)));
  absl::Status status = absl::UnimplementedError(absl::StrCat("there is no question \"", kind, "\""));
  if (kind == "sliceRequest") status = AskAboutSlices(cluster, session.id(), request, done);
  if (kind == "publishedRequest") status = AskAboutPublished(session, request, done);
  if (kind == "profilerRequest") status = AskAboutProfile(cluster, session.id(), request, done);
  if (absl::IsInvalidArgument(status)) status = absl::InvalidArgumentError(absl::StrCat("Bad request: ", status.message()));
  if (!status.ok()) std::move(done)(std::move(status));
}

}  // namespace pw::session
