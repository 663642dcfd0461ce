#include "pathways/storage/s3_store.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "pathways/base/memory/try_allocate.h"
#include "pathways/base/status_macros.h"
#include "pathways/storage/s3_answers.h"

namespace pw::storage {
namespace {

constexpr char kMarkHeader[] = "x-amz-meta-pathways-mark";
constexpr size_t kMostListed = 1'000'000;
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);

// The server may serve a repetition of the request.
bool IsPassing(int status) { return status == 408 || status == 409 || status == 429 || status >= 500; }

absl::StatusCode CodeOf(int status) {
  if (status == 401 || status == 403) return absl::StatusCode::kPermissionDenied;
  if (status == 404) return absl::StatusCode::kNotFound;
  return IsPassing(status) ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition;
}

// Says what the operator can do.
std::string RemedyFor(int status, const std::string& code, const std::string& bucket) {
  if (code == "NoSuchBucket") return absl::StrCat("create the bucket '", bucket, "', or save to another one");
  if (code == "RequestTimeTooSkewed") return "set this host's clock";
  if (code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed" || status == 301 || status == 307)
    return "the bucket may be in another region: set 'region' in the file of --object-credentials, and the address in "
           "--object-store";
  if (status == 401 || status == 403)
    return "give the key in the file of --object-credentials the right to it, or correct the key";
  if (IsPassing(status)) return absl::StrCat("it was asked ", S3Store::kAttempts, " times: try again later");
  return "see the store's own documentation of this error";
}

absl::Duration LimitFor(int64_t bytes) { return absl::Seconds(60) + absl::Seconds(bytes >> 20); }

}  // namespace

std::string S3Store::Display(const ObjectName& name) const { return absl::StrCat(scheme_, "://", name.bucket, "/", name.key); }

absl::Status S3Store::Refused(const Call& call, absl::StatusCode code, absl::string_view why) const {
  return absl::Status(code, absl::StrCat("cannot ", call.action, " ", Display(*call.name), ": ", why));
}

absl::Status S3Store::Failed(const Call& call, const http::Answer& answer) const {
  const S3Error error = ParseS3Error(answer.body);
  if (answer.status == 404 && error.code != "NoSuchBucket")
    return Refused(call, absl::StatusCode::kNotFound, "it does not exist");
  const std::string told = error.code.empty() ? "" : absl::StrCat(" ", error.code, " (", error.message, ")");
  return Refused(call, CodeOf(answer.status),
                 absl::StrCat("the object store ", endpoint_.HostHeader(), " answers ", answer.status, told, "; ",
                              RemedyFor(answer.status, error.code, call.name->bucket)));
}

absl::StatusOr<http::Answer> S3Store::Once(const Call& call) const {
  PW_ASSIGN_OR_RETURN(const S3Credentials credentials, environment_.credentials());
  S3Request request{call.method, absl::StrCat("/", call.name->bucket), call.query, call.headers};
  if (call.query.empty()) absl::StrAppend(&request.path, "/", call.name->key);  // else the bucket is asked
  request.headers["host"] = endpoint_.HostHeader();
  SignS3(credentials, HexSha256({call.body.view().data(), call.body.size()}), environment_.clock->Now(), &request);
  http::Asked asked{call.method, TargetOf(request), {}, call.body, static_cast<size_t>(call.most_answer)};
  for (const auto& [name, value] : request.headers) {
    if (name != "host") asked.headers.emplace_back(name, value);
  }
  http::AskOptions options;
  options.limit = LimitFor(static_cast<int64_t>(call.body.size()) + call.most_answer);
  return environment_.ask(endpoint_, asked, options);
}

absl::StatusOr<http::Answer> S3Store::Do(const Call& call, std::initializer_list<int> also) const {
  absl::Duration pause = kFirstPause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    const absl::StatusOr<http::Answer> answer = Once(call);
    const bool passing = answer.ok() ? IsPassing(answer->status) : absl::IsUnavailable(answer.status());
    if (!passing || attempt == kAttempts) {
      if (!answer.ok())
        return Refused(call, answer.status().code(),
                       absl::StrCat("the object store ", endpoint_.HostHeader(), ": ", answer.status().message()));
      const bool wanted = answer->status / 100 == 2 || std::find(also.begin(), also.end(), answer->status) != also.end();
      return wanted ? answer : Failed(call, *answer);
    }
    environment_.pause(pause);
  }
}

absl::Status S3Store::Put(const ObjectName& name, const Bytes& data) const {
  Call call{"write", "PUT", &name};
  call.body = data;
  return Do(call).status();
}

// Finds out once whether the server knows If-None-Match: older ones ignore it. `call` has just written an object.
absl::Status S3Store::CheckCondition(const Call& call) const {
  if (honours_conditions_) return absl::OkStatus();
  PW_ASSIGN_OR_RETURN(const http::Answer again, Do(call, {412}));
  if (again.status != 412)
    return Refused(
        call, absl::StatusCode::kFailedPrecondition,
        absl::StrCat(
            "the object store ", endpoint_.HostHeader(),
            " ignores 'If-None-Match: *', so saves could overwrite each other: use a newer version of it, or another store"));
  honours_conditions_ = true;
  return absl::OkStatus();
}

absl::Status S3Store::PutNew(const ObjectName& name, const Bytes& data, const Mark& mark) const {
  Call call{"write", "PUT", &name, {{"if-none-match", "*"}, {kMarkHeader, mark}}};
  if (static_cast<int64_t>(data.size()) > kMostObject)
    return Refused(call, absl::StatusCode::kInvalidArgument,
                   absl::StrCat("it has ", data.size(), " bytes, and one object has at most ", kMostObject,
                                ": spread the array over more devices, so that its tiles are smaller"));
  call.body = data;
  PW_ASSIGN_OR_RETURN(const http::Answer answer, Do(call, {412}));
  if (answer.status != 412) return CheckCondition(call);
  honours_conditions_ = true;
  PW_ASSIGN_OR_RETURN(const Mark found, GetMark(name));
  if (found == mark) return absl::OkStatus();  // an earlier attempt has written it, and its answer was lost
  return Refused(call, absl::StatusCode::kAlreadyExists, "it exists");
}

absl::StatusOr<ObjectStore::Mark> S3Store::GetMark(const ObjectName& name) const {
  PW_ASSIGN_OR_RETURN(const http::Answer answer, Do({"read", "HEAD", &name}));
  return answer.header(kMarkHeader);
}

absl::StatusOr<Bytes> S3Store::Get(const ObjectName& name, int64_t limit) const {
  Call call{"read", "GET", &name};
  call.most_answer = std::min(limit, kMostAnswer);
  PW_ASSIGN_OR_RETURN(http::Answer answer, Do(call));
  return Bytes::FromString(std::move(answer.body));
}

absl::Status S3Store::ReadPart(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const {
  const int64_t size = static_cast<int64_t>(out.size());
  Call call{"read", "GET", &name, {{"range", absl::StrCat("bytes=", offset, "-", offset + size - 1)}}};
  call.most_answer = size;
  const std::string other_size = absl::StrCat("it has not the ", bytes, " bytes that its array says");
  PW_ASSIGN_OR_RETURN(const http::Answer answer, Do(call, {416}));
  if (answer.status == 416) return Refused(call, absl::StatusCode::kDataLoss, other_size);
  const bool whole = answer.status == 200 && offset == 0 && size == bytes;
  const std::string expected = absl::StrCat("bytes ", offset, "-", offset + size - 1, "/", bytes);
  if ((!whole && answer.header("content-range") != expected) || answer.body.size() != out.size())
    return Refused(call, absl::StatusCode::kDataLoss, other_size);
  std::memcpy(out.data(), answer.body.data(), out.size());
  return absl::OkStatus();
}

absl::Status S3Store::Read(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const {
  while (!out.empty()) {
    const size_t size = std::min<size_t>(out.size(), kMostAnswer);
    PW_RETURN_IF_ERROR(ReadPart(name, bytes, offset, out.subspan(0, size)));
    out.remove_prefix(size);
    offset += static_cast<int64_t>(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> S3Store::List(const ObjectName& name) const {
  std::vector<std::pair<std::string, int64_t>> all;
  Call call{"list", "GET", &name, {}, {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", name.key}}};
  call.most_answer = kMostAnswer;
  for (;;) {
    PW_ASSIGN_OR_RETURN(const http::Answer answer, Do(call));
    absl::StatusOr<S3Page> page = ParseS3Page(answer.body);
    if (!page.ok()) return Refused(call, absl::StatusCode::kUnavailable, page.status().message());
    for (auto& object : page->objects) {
      if (!absl::StartsWith(object.first, name.key))
        return Refused(call, absl::StatusCode::kUnavailable, "its list of objects has one that was not asked for");
      all.push_back(std::move(object));
    }
    if (all.size() > kMostListed)
      return Refused(call, absl::StatusCode::kResourceExhausted, absl::StrCat("there are more than ", kMostListed, " objects"));
    if (page->next.empty()) break;
    if (page->next == call.query["continuation-token"])
      return Refused(call, absl::StatusCode::kUnavailable, "its list of objects does not go on");
    call.query["continuation-token"] = page->next;
  }
  std::sort(all.begin(), all.end());
  return all;
}

absl::Status S3Store::Delete(const ObjectName& name) const { return Do({"remove", "DELETE", &name}, {404}).status(); }

absl::StatusOr<S3Credentials> ParseS3Credentials(absl::string_view text, absl::string_view scheme) {
  std::map<std::string, std::map<std::string, std::string>> sections;
  std::string section;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (absl::ConsumePrefix(&line, "[") && absl::ConsumeSuffix(&line, "]")) {
      section = std::string(absl::StripAsciiWhitespace(line));
      sections[section];
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits('=', 1));
    sections[section][std::string(absl::StripAsciiWhitespace(field.first))] =
        std::string(absl::StripAsciiWhitespace(field.second));
  }
  auto found = sections.find(std::string(scheme));
  if (found == sections.end()) found = sections.find("default");
  if (found == sections.end())
    return absl::InvalidArgumentError(absl::StrCat("it has neither a section [", scheme, "] nor [default]"));
  std::map<std::string, std::string>& fields = found->second;
  S3Credentials credentials{fields["aws_access_key_id"], fields["aws_secret_access_key"], fields["aws_session_token"]};
  if (!fields["region"].empty()) credentials.region = fields["region"];
  if (credentials.key_id.empty() || credentials.secret.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("its section [", found->first, "] has not both of aws_access_key_id and aws_secret_access_key"));
  for (const std::string* value : {&credentials.key_id, &credentials.secret, &credentials.session_token, &credentials.region}) {
    if (!std::all_of(value->begin(), value->end(), absl::ascii_isgraph))
      return absl::InvalidArgumentError(
          absl::StrCat("a value of its section [", found->first, "] has blanks or special characters in it"));
  }
  return credentials;
}

}  // namespace pw::storage
