// A crowd: many clients of several users in one process, each with more work for the device than it can do. A stock jax program for each would
// take a machine of 64 programs; a client of pathways/client takes a connection and some threads.
//
//   crowd ADDRESS CLIENTS RESULTS TOKEN_FILE=WEIGHT...
//
// Opens CLIENTS sessions with each token, which ask for this weight. Once all of them compute, it counts the results that each session sees, until
// there are RESULTS of all together, and prints the counts in one line: first those of the first token. It does not look at a clock. All sessions go on
// computing until standard input ends.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/client/client.h"

namespace {

using pw::client::Array;
using pw::client::Client;

// The computations that a session has under way: it has work waiting at the controller, even if this process stands still for a while.
constexpr int kDepth = 16;
// The results of each session before counting begins: by then the scheduler has seen how long its computations take.
constexpr int kWarmUp = 3;

constexpr char kStep[] = R"(
module @step {
  func.func public @main(%x: tensor<5000xf32>) -> tensor<5000xf32> {
    %0 = stablehlo.add %x, %x : tensor<5000xf32>
    return %0 : tensor<5000xf32>
  }
})";

// Counts results of all sessions. One thread calls it.
class Tally {
 public:
  Tally(size_t sessions, int64_t wanted) : counts_(sessions), wanted_(wanted) {}

  void Add(size_t session) {
    if (left_ == 0) return;
    ++counts_[session];
    if (warm_ < counts_.size()) {
      if (counts_[session] == kWarmUp && ++warm_ == counts_.size()) counts_.assign(counts_.size(), 0);
    } else if (--left_ == 0) {
      std::printf("%s\n", absl::StrJoin(counts_, " ").c_str());
      std::fflush(stdout);
    }
  }

 private:
  std::vector<int64_t> counts_;
  size_t warm_ = 0;  // sessions with kWarmUp results; all: the counts are of the window
  const int64_t wanted_;
  int64_t left_ = wanted_;
};

// A client that always has kDepth computations under way. Everything after Connect runs on one thread.
class Member {
 public:
  Member(size_t number, Tally* tally, pw::Executor* thread) : number_(number), tally_(tally), thread_(thread) {}

  absl::Status Connect(const Client::Options& options) {
    PW_ASSIGN_OR_RETURN(client_, Client::Connect(options));
    const pw::DeviceId device = client_->cluster().devices.front().id;
    pw::session::CompileRequest request;
    request.format = "mlir";
    request.program = pw::Bytes::FromString(kStep);
    request.devices = {device};
    PW_ASSIGN_OR_RETURN(step_, pw::Await(client_->Compile(std::move(request))));
    const pw::buffers::ArraySpec spec{pw::buffers::DType::kF32, {5000}, pw::buffers::Sharding::SingleDevice(device, "")};
    x_.push_back(client_->Put(spec, pw::Bytes::FromString(std::string(5000 * sizeof(float), '\0'))));
    return pw::Await(client_->Ready(x_.front())).status();
  }

  void Begin() {
    for (int i = 0; i < kDepth; ++i) Launch();
  }

 private:
  void Launch() {
    pw::client::Run run = client_->Execute(step_, {&x_.front()}, {.ready = true});
    run.ready.OnReady(thread_, [this, results = std::move(run.results)](const absl::StatusOr<pw::Unit>& end) {
      if (!end.ok()) {  // none may fail while the cluster is up
        std::fprintf(stderr, "crowd: session %zu: %s\n", number_, end.status().ToString().c_str());
        std::_Exit(1);
      }
      tally_->Add(number_);
      Launch();
    });
  }

  const size_t number_;
  Tally* const tally_;
  pw::Executor* const thread_;
  std::unique_ptr<Client> client_;
  pw::client::Executable step_;
  std::vector<Array> x_;  // one, once connected
};

struct Arguments {
  std::string address;
  int clients = 0;
  int64_t results = 0;
  std::vector<std::pair<std::string, double>> users;  // token file, weight
};

absl::StatusOr<Arguments> Parse(int argc, char** argv) {
  const absl::Status usage = absl::InvalidArgumentError("usage: crowd ADDRESS CLIENTS RESULTS TOKEN_FILE=WEIGHT...");
  if (argc < 5) return usage;
  Arguments parsed{argv[1]};
  if (!absl::SimpleAtoi(argv[2], &parsed.clients) || !absl::SimpleAtoi(argv[3], &parsed.results)) return usage;
  if (parsed.clients < 1 || parsed.results < 1) return usage;
  for (int i = 4; i < argc; ++i) {
    const std::pair<std::string, std::string> user = absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    double weight;
    if (!absl::SimpleAtod(user.second, &weight)) return usage;
    parsed.users.emplace_back(user.first, weight);
  }
  return parsed;
}

absl::Status Run(const Arguments& arguments) {
  const size_t count = arguments.clients * arguments.users.size();
  Tally tally(count, arguments.results);
  pw::ThreadPool thread("crowd", 1);
  std::vector<std::unique_ptr<Member>> members;
  for (const auto& [token_file, weight] : arguments.users) {
    Client::Options options;
    options.controller = arguments.address;
    options.share.weight = weight;
    options.timeout = absl::Minutes(4);
    options.credentials.token_file = token_file;
    options.say = [](const std::string& line) { std::fprintf(stderr, "crowd: %s\n", line.c_str()); };
    for (int i = 0; i < arguments.clients; ++i) {
      options.description = absl::StrCat("crowd ", members.size());
      members.push_back(std::make_unique<Member>(members.size(), &tally, &thread));
      PW_RETURN_IF_ERROR(members.back()->Connect(options));
    }
  }
  for (const auto& member : members) thread.Post([member = member.get()] { member->Begin(); });
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);  // while all of them compute: the controller notices that they have gone
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<Arguments> arguments = Parse(argc, argv);
  const absl::Status status = arguments.ok() ? Run(*arguments) : arguments.status();
  std::fprintf(stderr, "crowd: %s\n", std::string(status.message()).c_str());
  return arguments.ok() ? 1 : 2;
}
