// validate.mjs FOLDER FILE… - each document of the YAML files against the schema of its kind in the Kubernetes API, and no field that the
// schema does not know. FOLDER holds the npm packages. Ends with `N passed, N failed`. Kinds outside of the API itself are skipped, said so.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const [folder, ...files] = process.argv.slice(2);
const load = createRequire(folder + "/");
const { parseAllDocuments } = load("yaml");

/* A field that no schema knows is a misspelling: the API server would drop it without a word. The schemas are compiled to code here, so
 * the document is watched while it is validated: what nobody has looked at is not known to anybody. */
function watched(value, path, unseen) {
  if (value === null || typeof value !== "object") return value;
  const copy = Array.isArray(value) ? [] : {};
  for (const [name, inner] of Object.entries(value)) {
    unseen.add(`${path}.${name}`);
    copy[name] = watched(inner, `${path}.${name}`, unseen);
  }
  return new Proxy(copy, {
    get(target, name) {
      unseen.delete(`${path}.${String(name)}`);
      return target[name];
    },
  });
}
/* Only the outermost: what is inside of an unknown field was not looked at either. */
function outermost(paths) {
  return [...paths].filter(path => ![...paths].some(other => path.startsWith(other + ".")));
}

let passed = 0, failed = 0;
for (const file of files) {
  for (const document of parseAllDocuments(readFileSync(file, "utf8"))) {
    const object = document.toJS(), name = `${file}: ${object?.kind} ${object?.metadata?.name}`, errors = document.errors.map(String);
    let model;
    try {
      model = load(`kubernetes-models/${object.apiVersion}/${object.kind}`)[object.kind];
    } catch {
      console.log(`skipped: ${name}: ${object?.apiVersion} is not part of the Kubernetes API itself`);
      continue;
    }
    const unseen = new Set();
    try {
      model.prototype.validate.call(watched(object, "", unseen));
    } catch (error) {
      errors.push(error.message);
    }
    errors.push(...outermost(unseen).map(path => `${path} is unknown`));
    if (errors.length) console.log(`${name}:\n  ${errors.join("\n  ")}`);
    errors.length ? failed++ : passed++;
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
