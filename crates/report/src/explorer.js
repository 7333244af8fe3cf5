"use strict";
for (const explorer of document.querySelectorAll(".explorer")) {
  const data = JSON.parse(explorer.querySelector("script").textContent);
  const inputs = [...explorer.querySelectorAll("input")];
  const outputs = [...explorer.querySelectorAll("output")];
  const cells = [...explorer.querySelectorAll("tbody td")];
  const show = () => {
    let index = 0;
    inputs.forEach((input, at) => {
      const choices = data.choices[at];
      const choice = Number(input.value);
      index = index * choices.length + choice;
      outputs[at].textContent = choices[choice];
      input.setAttribute("aria-valuetext", choices[choice]);
    });
    data.values[index].forEach((value, row) => { cells[row].textContent = value; });
  };
  inputs.forEach((input) => input.addEventListener("input", show));
  // A browser that goes back to the page keeps the sliders where they were.
  show();
}
