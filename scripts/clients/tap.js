// tap.js - what the programs for Node.js share. Each prints answers, which both.py compares between databases.

const sharded = process.env.SHARDED === "yes";
const address = { host: "127.0.0.1", port: Number(process.env.PGPORT), user: process.env.PGUSER, database: process.env.PGDATABASE };
const url = `postgres://${address.user}@${address.host}:${address.port}/${address.database}`;

// The SQLSTATE of an error, which libraries put in different places, or its name.
function sqlstate(error) {
  for (let e = error; e; e = e.original || e.driverError || e.cause) {
    if (/^[0-9A-Z]{5}$/.test(e.code || "")) return e.code;
  }
  return error.name;
}

// Prints the answer of a function, or its error.
async function step(name, action) {
  try {
    console.log(`= ${name}: ${JSON.stringify(await action())}`);
  } catch (error) {
    console.log(`= ${name}: ERROR ${sqlstate(error)} ${String(error.message).replace(/\s+/g, " ")}`);
  }
}

// The SQLSTATE with which a function fails, or "no error".
async function errorOf(action) {
  try {
    await action();
    return "no error";
  } catch (error) {
    return sqlstate(error);
  }
}

// On sharded tables only: the action must fail with the SQLSTATE.
async function refused(name, wanted, action) {
  if (!sharded) return;
  const got = await errorOf(action);
  console.log(got === wanted ? `ok - refused: ${name}` : `not ok - refused: ${name}: ${got}, not ${wanted}`);
}

module.exports = { address, errorOf, refused, sharded, sqlstate, step, url };
