// The main function of benchmarks by Google Benchmark. It takes --json PATH, like all benchmarks here, and Google Benchmark's
// flags.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::vector<std::string> texts(argv, argv + argc);
  for (size_t i = 1; i + 1 < texts.size(); ++i) {
    if (texts[i] != "--json") continue;
    texts[i] = "--benchmark_out_format=json";
    texts[i + 1] = "--benchmark_out=" + texts[i + 1];
  }
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
