// FloorSession: a server's minimal work for a stock jax client that runs `y = f(y)`.
//
// It keeps the spec of every array and computes nothing: an executable's one output has the spec of its first argument, and
// contents are zeros. Requests for which a client does not wait get no answer (unless `answer_all`). The time of a request is
// then the client's own cost: the floor to which the real server is compared. A CheckValueReady request is answered when the
// array's upload has arrived. Other kinds of requests get UNIMPLEMENTED. Called by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "bench/floor/host_buffers.h"
#include "ifrt_proxy/ifrt_service.pb.h"

namespace pw::bench {

class FloorSession {
 public:
  FloorSession(uint64_t id, int devices, bool answer_all, HostBuffers* buffers)
      : id_(id), devices_(devices), answer_all_(answer_all), buffers_(buffers) {}

  // May be called later and on another thread.
  using Respond = std::function<void(xla::ifrt::proxy::IfrtResponse)>;
  // Calls `respond` once if an answer is needed.
  void Handle(const xla::ifrt::proxy::IfrtRequest& request, Respond respond);

 private:
  using Output = xla::ifrt::proxy::LoadedExecutableExecuteResponse::Output;  // an array's spec, in jax's form

  void Init(xla::ifrt::proxy::InitResponse* response) const;
  void Compile(const xla::ifrt::proxy::CompileRequest& request, xla::ifrt::proxy::CompileResponse* response);
  void Metadata(xla::ifrt::proxy::LoadedExecutableMetadataResponse* response) const;
  // Returns false if the client has the results' handles and does not wait.
  bool Execute(const xla::ifrt::proxy::LoadedExecutableExecuteRequest& request,
               xla::ifrt::proxy::LoadedExecutableExecuteResponse* response);
  void Put(const xla::ifrt::proxy::MakeArrayFromHostBufferRequest& request);
  // Calls `then` when all uploads of these arrays have arrived.
  void WhenUploaded(const xla::ifrt::proxy::CheckValueReadyRequest& request, std::function<void()> then);
  void CopyToHost(const xla::ifrt::proxy::CopyToHostBufferRequest& request);
  void PutShards(const xla::ifrt::proxy::MakeArraysFromHostBufferShardsRequest& request);

  const uint64_t id_;
  const int devices_;
  const bool answer_all_;
  HostBuffers* const buffers_;
  uint64_t next_handle_ = uint64_t{1} << 62;
  std::map<uint64_t, Output> arrays_;
  std::map<uint64_t, std::vector<uint64_t>> uploads_;  // array -> host buffers not yet waited for
};

}  // namespace pw::bench
