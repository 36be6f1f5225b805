// The token of this page: the server answers nothing about locks without it. It comes behind the "#" of the address, which
// browsers send to no server and name in no Referer, and leaves the address at once. It is kept for this origin, port
// included, for the other windows; a cookie would go to every port of this machine, whoever listens there.
const KEY = "coterie-dashboard-token";
let token = null; // where nothing can be kept

/** Take the token out of the address; return whether there was one. */
function takeToken() {
  const found = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!found) return false;
  token = found[1];
  try { localStorage.setItem(KEY, token); } catch { /* this window alone has it */ }
  history.replaceState(null, "", location.pathname);
  return true;
}

takeToken();
addEventListener("hashchange", () => { if (takeToken()) location.reload(); });

function kept() {
  try { return localStorage.getItem(KEY) ?? token; } catch { return token; }
}

/** Ask the server, as `fetch` does, with the token. */
export function ask(path, options = {}) {
  return fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${kept() ?? ""}` } });
}
