// Starts `axon lsp` and hands it to the editor.
"use strict";
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function start() {
  const settings = vscode.workspace.getConfiguration("axon");
  const server = {
    command: settings.get("path"),
    args: ["lsp", ...settings.get("arguments")],
  };
  client = new LanguageClient("axon", "Axon", server, {
    documentSelector: [{ language: "axon" }],
    synchronize: {
      fileEvents: vscode.workspace.createFileSystemWatcher(
        // programs, and the data whose headers they read
        "**/*.{axn,npy,npz,safetensors,csv,png,pgm,ppm}"
      ),
    },
  });
  return client.start();
}

exports.activate = function (context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("axon.restart", async () => {
      await client.stop();
      await start();
    })
  );
  return start();
};

exports.deactivate = function () {
  return client && client.stop();
};
