// A front end over a cluster without workers, to try clients. It stores and returns arrays; programs return their first argument.
// It prints its port, and runs until its standard input ends.
#include <cstdio>

#include "pathways/base/threads/strand.h"
#include "pathways/base/threads/thread_pool.h"
#include "pathways/frontend/server.h"
#include "pathways/frontend/testing/fake_cluster.h"

int main(int argc, char** argv) {
  pw::ThreadPool pool("pw-strand", 1);
  pw::Strand strand(&pool);
  pw::frontend::testing::FakeCluster cluster(&strand);
  pw::frontend::ServerOptions options;
  if (argc > 1) options.shared_directory = argv[1];
  auto server = pw::frontend::Server::Start(options, &cluster);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  (*server)->Shutdown();
  return 0;
}
