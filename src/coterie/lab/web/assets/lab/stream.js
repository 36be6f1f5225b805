// An answer that comes line by line, each of them JSON.
export async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    for (const each of lines) if (each) yield JSON.parse(each);
    if (done) return;
  }
}
