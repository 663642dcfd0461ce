#include "plugins/pathways_pjrt/own_cluster.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "pathways/base/log.h"
#include "pathways/base/log_file.h"
#include "pathways/base/process/flags.h"
#include "pathways/base/status_macros.h"
#include "pathways/base/threads/await.h"
#include "pathways/bin/local_cluster.h"

namespace pw::pathways_pjrt {
namespace {

constexpr absl::Duration kPatienceAtEnd = absl::Seconds(10);

// A cluster and the flags with which it was started.
struct Running {
  std::string flags;
  std::atomic<bool> ended = false;  // its host has ended
  std::unique_ptr<LocalCluster> cluster;
};

absl::StatusOr<std::shared_ptr<Running>> Start(const std::string& flags_text) {
  LocalClusterOptions options;
  std::string log;
  Flags flags("a local cluster in this process", "");
  DeclareLocalCluster(&options, &flags);
  flags.Add("log", &log, "FILE", "where log lines go; default: standard error");
  PW_RETURN_IF_ERROR(flags.Parse(absl::StrSplit(flags_text, '\n', absl::SkipEmpty())));
  if (!log.empty() && !LogTo(log)) return absl::InvalidArgumentError(absl::StrCat("--log: cannot write to ", log));
  options.host.in_user_process = true;
  auto running = std::make_shared<Running>();
  running->flags = flags_text;
  PW_ASSIGN_OR_RETURN(running->cluster,
                      LocalCluster::Start(std::move(options), [weak = std::weak_ptr<Running>(running)](const absl::Status& why) {
                        if (const auto self = weak.lock()) self->ended = true;
                        PW_LOG_ERROR << "the host of the local cluster in this process has ended: " << why.message();
                      }));
  PW_RETURN_IF_ERROR(Await(running->cluster->formed()).status());
  return running;
}

class Clusters {
 public:
  absl::StatusOr<std::shared_ptr<Running>> Get(const std::string& flags) {
    std::lock_guard<std::mutex> lock(mu_);  // held while a cluster starts: other callers with the same flags share it
    if (const pid_t here = getpid(); here != pid_) {
      if (pid_ == 0) std::atexit([] { TheClusters().AtEnd(); });
      new std::vector<std::shared_ptr<Running>>(std::move(running_));  // leaked: the parent's clusters are not destroyed here
      running_.clear();
      pid_ = here;
    }
    for (std::shared_ptr<Running>& running : running_) {
      if (running->flags != flags) continue;
      if (!running->ended) return running;
      PW_ASSIGN_OR_RETURN(running, Start(flags));
      return running;
    }
    PW_ASSIGN_OR_RETURN(std::shared_ptr<Running> running, Start(flags));
    running_.push_back(running);
    return running;
  }

  // Returns the clusters of this process. It is never destroyed, so that their threads may run until the process ends.
  static Clusters& TheClusters() {
    static auto* const clusters = new Clusters;
    return *clusters;
  }

 private:
  void AtEnd() {
    if (getpid() != pid_) return;
    std::vector<std::shared_ptr<Running>> running;
    {
      std::lock_guard<std::mutex> lock(mu_);
      running = running_;
    }
    for (const std::shared_ptr<Running>& one : running) {
      one->cluster->Stop("the program ends", absl::Seconds(2));
      one->cluster->AwaitDevices(kPatienceAtEnd);
    }
  }

  std::mutex mu_;
  pid_t pid_ = 0;                                  // guarded by mu_; the process that started these clusters
  std::vector<std::shared_ptr<Running>> running_;  // guarded by mu_
};

}  // namespace

absl::StatusOr<OwnSession> OpenOwnSession(const std::string& flags, const std::string& description,
                                          const gang::ShareChange& share) {
  PW_ASSIGN_OR_RETURN(std::shared_ptr<Running> running, Clusters::TheClusters().Get(flags));
  LocalCluster& cluster = *running->cluster;
  OwnSession session{std::move(running), cluster.thread(), nullptr};
  PW_ASSIGN_OR_RETURN(session.client, client::Client::Open(cluster.cluster(), cluster.timers(), description, share));
  return session;
}

}  // namespace pw::pathways_pjrt
