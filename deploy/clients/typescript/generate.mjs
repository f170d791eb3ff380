// Write the types of openapi.json: node generate.mjs OPENAPI_JSON SCHEMA_TS
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const { factory } = ts;
const literal = (word) => factory.createLiteralTypeNode(factory.createStringLiteral(word));
// Any other word as well, without losing the known ones to the editor's completion.
const anyWord = factory.createParenthesizedType(
  factory.createIntersectionTypeNode([
    factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword),
    factory.createTypeLiteralNode([]),
  ]),
);

const [document, target] = process.argv.slice(2);
const nodes = await openapiTS(pathToFileURL(document), {
  // A service may be newer than its client: what was an exhaustive switch would meet a word that it does not know.
  transform: (schema) =>
    schema.type === "string" && Array.isArray(schema.enum)
      ? factory.createUnionTypeNode([...schema.enum.map(literal), anyWord])
      : undefined,
  // A field with a default may be left out of a request.
  defaultNonNullable: false,
  rootTypes: true,
  rootTypesNoSchemaPrefix: true,
  alphabetize: false,
});
writeFileSync(target, `// Generated from openapi.json; do not edit.\n\n${astToString(nodes)}`);
