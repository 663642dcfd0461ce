// S3Store: the objects of a server that speaks Amazon S3's protocol, as S3 itself, MinIO, Ceph and many others do.
//
// Each request is signed, and its body's hash with it, so a byte that changes on its way is refused. Requests that the server could not serve, or
// whose answer was lost, are repeated a few times with growing pauses; all of them may be repeated (SJ-2).
//
// Invariants:
//   SJ-1  secrets are in the signatures alone: no log line and no error has them
//   SJ-2  a request that is repeated has the same effect as one. PutNew knows its own object by the mark
//   SJ-3  a server that would overwrite an object in PutNew is refused at the first one
//   SJ-4  no more than kMostAnswer bytes of an answer are kept
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "pathways/base/threads/clock.h"
#include "pathways/http/client.h"
#include "pathways/storage/object_store.h"
#include "pathways/storage/s3_signature.h"

namespace pw::storage {

class S3Store final : public ObjectStore {
 public:
  static constexpr int64_t kMostAnswer = 16 << 20;
  static constexpr int64_t kMostObject = int64_t{5} << 30;  // S3's limit for one request
  static constexpr int kAttempts = 6;

  // What it uses; all outlive it. Called on any thread.
  struct Environment {
    Clock* clock;                                                // the time of day
    std::function<absl::StatusOr<S3Credentials>()> credentials;  // read anew for each request, so that new keys count at once
    std::function<absl::StatusOr<http::Answer>(const http::Endpoint&, const http::Asked&, const http::AskOptions&)> ask;
    std::function<void(absl::Duration)> pause;  // returns after that time
  };

  // `scheme`: with which clients name its objects, such as "s3".
  S3Store(std::string scheme, http::Endpoint endpoint, Environment environment)
      : scheme_(std::move(scheme)), endpoint_(std::move(endpoint)), environment_(std::move(environment)) {}

  absl::Status Put(const ObjectName& name, const Bytes& data) const override;
  absl::Status PutNew(const ObjectName& name, const Bytes& data, const Mark& mark) const override;
  absl::StatusOr<Mark> GetMark(const ObjectName& name) const override;
  absl::StatusOr<Bytes> Get(const ObjectName& name, int64_t limit) const override;
  absl::Status Read(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const override;
  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> List(const ObjectName& name) const override;
  absl::Status Delete(const ObjectName& name) const override;
  std::string Display(const ObjectName& name) const override;

 private:
  struct Call {
    const char* action;  // for errors: "write"
    const char* method;
    const ObjectName* name;
    std::map<std::string, std::string> headers = {}, query = {};
    Bytes body = {};
    int64_t most_answer = 1 << 20;
  };

  // Returns the answer if its status is 2xx, or one of `also`.
  absl::StatusOr<http::Answer> Do(const Call& call, std::initializer_list<int> also = {}) const;
  absl::StatusOr<http::Answer> Once(const Call& call) const;
  absl::Status Failed(const Call& call, const http::Answer& answer) const;
  absl::Status Refused(const Call& call, absl::StatusCode code, absl::string_view why) const;
  absl::Status CheckCondition(const Call& call) const;
  absl::Status ReadPart(const ObjectName& name, int64_t bytes, int64_t offset, absl::Span<uint8_t> out) const;

  const std::string scheme_;
  const http::Endpoint endpoint_;
  const Environment environment_;
  mutable std::atomic<bool> honours_conditions_ = false;  // it is known to
};

// Parses the credentials of one scheme in a file of the form that Amazon's tools use: "[s3]", "aws_access_key_id = ...",
// "aws_secret_access_key = ...", and where wanted "aws_session_token = ..." and "region = ...". Without a section of this scheme, "[default]" counts.
// INVALID_ARGUMENT says what is missing, and never quotes the file.
absl::StatusOr<S3Credentials> ParseS3Credentials(absl::string_view text, absl::string_view scheme);

}  // namespace pw::storage
